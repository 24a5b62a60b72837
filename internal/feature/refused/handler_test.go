package refused_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/store"
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
			page, err := c.Refused(t.Context(), api.RefusedQuery{Days: test.days, Account: test.account, After: after, Limit: 1})
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

func TestRefusals(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	for _, query := range []string{"after=!", "after=YQ", "days=401"} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", "/tollgate/refused?"+query, "")
	}
}
