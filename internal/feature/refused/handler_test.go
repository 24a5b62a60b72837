package refused_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// TestRefused reads refused calls page by page, of some days or one account.
func TestRefused(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	c := client.InProcess(feature.Handler(gate, slog.New(slog.DiscardHandler)))
	today := gate.Policy().Calendar.At(gate.Now()).Day
	err := gate.Opened().AddRefused(t.Context(), []store.Refused{
		{Day: today - 7, Account: "acc_1", Endpoint: "convert", Code: "old", Calls: 9},
		{Day: today - 6, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 3},
		{Day: today, Code: "unauthenticated", Calls: 2},
		{Day: today, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 1},
		{Day: today, Account: "acc_3", Endpoint: "convert", Code: "invalid_token", Calls: 1},
		{Day: today, Account: "acc_3", Endpoint: "convert", Code: "invalid_token", Reason: "expired", Calls: 2},
		{Day: today, Account: "acc_3", Endpoint: "convert", Code: "invalid_token", Reason: "revoked", Calls: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	old := api.Refused{Day: "2126-11-13", Account: "acc_1", Endpoint: "convert", Code: "old", Calls: 9}
	first := api.Refused{Day: "2126-11-14", Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 3}
	unknown := api.Refused{Day: "2126-11-20", Code: "unauthenticated", Calls: 2}
	last := api.Refused{Day: "2126-11-20", Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 1}
	ended := []api.Refused{
		{Day: "2126-11-20", Account: "acc_3", Endpoint: "convert", Code: "invalid_token", Calls: 1},
		{Day: "2126-11-20", Account: "acc_3", Endpoint: "convert", Code: "invalid_token", Reason: "expired", Calls: 2},
		{Day: "2126-11-20", Account: "acc_3", Endpoint: "convert", Code: "invalid_token", Reason: "revoked", Calls: 3},
	}
	for name, test := range map[string]struct {
		days    int
		account string
		want    []api.Refused
	}{
		"default": {0, "", append([]api.Refused{first, unknown, last}, ended...)},
		"today":   {1, "", append([]api.Refused{unknown, last}, ended...)},
		"all":     {api.MaxRefusedDays, "", append([]api.Refused{old, first, unknown, last}, ended...)},
		"reasons": {1, "acc_3", ended},
		"account": {8, "acc_1", []api.Refused{old, first, last}},
		"none":    {8, "acc_2", nil},
	} {
		got, err := client.All(func(after string) ([]api.Refused, *string, error) {
			page, err := c.Refused(t.Context(), test.days, test.account, after, 1)
			return page.Refused, page.Next, err
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFindAccounts filters accounts over several pages.
func TestFindAccounts(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	c := client.InProcess(feature.Handler(gate, slog.New(slog.DiscardHandler)))
	for id, change := range map[string]api.AccountChange{
		"acc_1": {Plan: new("starter")}, "ACC_2": {Plan: new("starter"), Disabled: new(true)},
		"acc_3": {Plan: new("business")}, "other": {Plan: new("starter")},
	} {
		if _, err := c.PutAccount(t.Context(), id, change); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		filter client.AccountFilter
		want   string
	}{
		"all":      {client.AccountFilter{}, "ACC_2 acc_1 acc_3 other"},
		"plan":     {client.AccountFilter{Plan: "starter"}, "ACC_2 acc_1 other"},
		"search":   {client.AccountFilter{Search: "aCc"}, "ACC_2 acc_1 acc_3"},
		"disabled": {client.AccountFilter{Disabled: new(true)}, "ACC_2"},
		"enabled":  {client.AccountFilter{Disabled: new(false)}, "acc_1 acc_3 other"},
		"both":     {client.AccountFilter{Plan: "starter", Search: "acc", Disabled: new(false)}, "acc_1"},
		"none":     {client.AccountFilter{Plan: "gold"}, ""},
	} {
		for _, limit := range []int{1, 2, 4, 5} {
			found, err := client.All(func(after string) ([]api.Account, *string, error) {
				page, err := c.FindAccounts(t.Context(), test.filter, after, limit)
				return page.Accounts, page.Next, err
			})
			var got []string
			for _, a := range found {
				got = append(got, a.Account)
			}
			if err != nil || strings.Join(got, " ") != test.want {
				t.Errorf("%s with limit %d: got %v, %v, want %s", name, limit, got, err, test.want)
			}
		}
	}
}

// TestSearchKey: the last 4 characters of a token find its account, in the case of
// the token.
func TestSearchKey(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	g.Account(t, "acc_1", "starter")
	key := store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key, Name: "ci", CreatedAt: g.Now(), Hint: "tgk_…aZ91"}
	if err := g.Opened().CreateKey(t.Context(), key, token.Foreign("x")); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"aZ91": 1, "az91": 0, "Z91": 0, "tgk_": 0} {
		if got := g.Must(t, http.StatusOK, "GET", "/tollgate/accounts?search="+text, "")["accounts"].([]any); len(got) != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

// TestReportRefusals: invalid parameters are refused, valid ones answered.
func TestReportRefusals(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	for _, target := range []string{
		"audit?since=yesterday", "audit?account=", "audit?after=x", "refused?after=!", "refused?after=YQ", "refused?days=401",
		"usage/counts", "usage/counts?day=", "usage/counts?day=today", "usage/counts?day=2126-02-30", "usage/counts?day=2126-11-20&limit=0",
		"explain", "explain?method=GET", "usage/top?days=0", "usage/top?days=91", "usage/top?limit=1001", "accounts?limit=0", "accounts?limit=1001", "accounts?limit=x", "accounts?limit=",
		"accounts?after=", "accounts?limit=1&limit=2", "accounts?after=" + strings.Repeat("x", 65),
	} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", "/tollgate/"+target, "")
	}
	g.Refused(t, http.StatusBadRequest, "unknown_parameter", "GET", "/tollgate/accounts?page=2", "")
	g.Account(t, "acc_1", "starter")
	g.Take(t, "convert", 1)
	g.Must(t, http.StatusOK, "GET", "/tollgate/usage/counts?day=2126-11-20&limit=1", "") // as documented
	g.Must(t, http.StatusOK, "GET", "/tollgate/usage/top", "")
	g.Must(t, http.StatusNoContent, "DELETE", "/tollgate/accounts/acc_1", "")
	if got := g.Call(t, "GET", "/tollgate/accounts", "").Body.String(); got != `{"accounts":[],"next":null}`+"\n" {
		t.Errorf("none: got %s", got)
	}
}
