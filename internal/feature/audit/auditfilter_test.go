package audit_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

// TestAuditFilters: an actor and a time select entries, page by page, in both
// orders.
func TestAuditFilters(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	c := client.InProcess(gate.InProcess())
	const hours = 6
	for i := range hours {
		for _, actor := range []string{"ada", "bob", ""} {
			if _, err := c.PutAccount(client.WithActor(t.Context(), actor), "acc_"+actor, api.AccountChange{Label: new(strings.Repeat("x", i+1))}); err != nil {
				t.Fatal(err)
			}
		}
		gate.Advance(time.Hour)
	}
	hour := func(n int) string { return controltest.Start.Add(time.Duration(n) * time.Hour).Format(time.RFC3339) }
	for name, test := range map[string]struct {
		filter api.AuditQuery
		want   int
	}{
		"all":                 {api.AuditQuery{}, 3 * hours},
		"actor":               {api.AuditQuery{Actor: "ada"}, hours},
		"actor of no account": {api.AuditQuery{Actor: "ada", Account: "acc_bob"}, 0},
		"until":               {api.AuditQuery{Until: hour(2)}, 2 * 3},
		"since and until":     {api.AuditQuery{Since: hour(1), Until: hour(4)}, 3 * 3},
		"all of them":         {api.AuditQuery{Actor: "bob", Account: "acc_bob", Since: hour(1), Until: hour(4)}, 3},
		"until the day":       {api.AuditQuery{Until: "2126-11-20"}, 0},
		"until the next day":  {api.AuditQuery{Until: "2126-11-21"}, 3 * hours},
		"until before since":  {api.AuditQuery{Since: hour(4), Until: hour(1)}, 0},
	} {
		var lists [2][]string
		for i, order := range []string{"", "desc"} {
			test.filter.Order, test.filter.Limit = order, 2
			all, err := client.All(func(after string) ([]api.AuditEntry, *string, error) {
				test.filter.After = after
				page, err := c.Audit(t.Context(), test.filter)
				return page.Audit, page.Next, err
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, e := range all {
				if since, until := test.filter.Since, test.filter.Until; test.filter.Actor != "" && e.Actor.ID != test.filter.Actor ||
					since > e.At.Format(time.RFC3339) || until != "" && until <= e.At.Format(time.RFC3339) {
					t.Errorf("%s: got %+v", name, e)
				}
				lists[i] = append(lists[i], e.ID)
			}
		}
		if len(lists[0]) != test.want {
			t.Errorf("%s: got %d entries, want %d", name, len(lists[0]), test.want)
		}
		for i, id := range lists[0] {
			if last := len(lists[1]) - 1 - i; last < 0 || lists[1][last] != id {
				t.Fatalf("%s: newest first has %v, oldest first %v", name, lists[1], lists[0])
			}
		}
	}
	for _, filter := range []api.AuditQuery{{Until: "yesterday"}, {Since: "yesterday"}, {Actor: strings.Repeat("a", 201)}} {
		if _, err := c.Audit(t.Context(), filter); err == nil || filter.Until != "" && !strings.Contains(err.Error(), "until") {
			t.Errorf("%+v: got %v", filter, err)
		}
	}
}

func TestAuditRefusals(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	for _, query := range []string{"since=yesterday", "account=", "after=x"} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", "/tollgate/audit?"+query, "")
	}
}

// TestAuditNames: an account and an actor are named by an id or a label, also a
// deleted account by its id. An unknown name is refused. Entries have the labels.
func TestAuditNames(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	c := client.InProcess(gate.InProcess())
	put := func(actor, account, label string) {
		t.Helper()
		gate.Advance(time.Hour)
		if _, err := c.PutAccount(client.WithActor(t.Context(), actor), account, api.AccountChange{Label: &label}); err != nil {
			t.Fatal(err)
		}
	}
	put("cron", "acc_ada", "ada@example.com")
	put("acc_ada", "acc_bob", "Bob")
	put("ada@example.com", "acc_bob", "Bob & Sons")
	put("cron", "acc_sons", "Bob & Sons")
	put("cron", "acc_gone", "gone@example.com")
	if err := c.DeleteAccount(client.WithActor(t.Context(), "acc_gone"), "acc_gone"); err != nil {
		t.Fatal(err)
	}
	const unknown = -1
	for name, c := range map[string]struct {
		query string
		want  int
	}{
		"account by its e-mail":             {"account=Ada@example.com", 1},
		"account by its label":              {"account=BOB+%26+Sons", 3}, // two accounts
		"deleted account":                   {"account=acc_gone", 2},
		"deleted account later":             {"account=acc_gone&since=2126-11-21", 0},
		"label of a deleted account":        {"account=gone@example.com", unknown},
		"unknown account":                   {"account=acc_adda", unknown},
		"actor by its id":                   {"actor=acc_ada", 2},
		"actor by its e-mail":               {"actor=ada@example.com", 2},
		"actor of no account":               {"actor=cron", 3},
		"actor in another case":             {"actor=Cron", unknown},
		"deleted actor":                     {"actor=acc_gone", 1},
		"account that changed nothing":      {"actor=acc_bob", 0},
		"known actor of another account":    {"account=acc_ada&actor=acc_gone", 0},
		"unknown actor of a known account":  {"account=acc_ada&actor=nobody", unknown},
		"account of no change in this time": {"account=acc_ada&until=2126-11-20", 0},
	} {
		r := httptest.NewRequest(http.MethodGet, "/tollgate/audit?"+c.query, nil)
		w := httptest.NewRecorder()
		gate.InProcess().ServeHTTP(w, r)
		var page api.AuditPage
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		if isUnknown := w.Code == http.StatusNotFound && strings.Contains(w.Body.String(), `"not_found"`); isUnknown != (c.want == unknown) || !isUnknown && len(page.Audit) != c.want {
			t.Errorf("%s: got %d %s, want %d entries", name, w.Code, w.Body, c.want)
		}
	}
	page, err := c.Audit(t.Context(), api.AuditQuery{Account: "acc_bob", Limit: 1})
	if text, _ := json.Marshal(page.Audit); err != nil || !strings.Contains(string(text), `"actor":{"kind":"person","id":"acc_ada","label":"ada@example.com"}`) || !strings.Contains(string(text), `"account":"acc_bob","label":"Bob \u0026 Sons"`) {
		t.Errorf("the entry is %s, %v", text, err)
	}
}
