package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
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
		filter client.AuditFilter
		want   int
	}{
		"all":                 {client.AuditFilter{}, 3 * hours},
		"actor":               {client.AuditFilter{Actor: "ada"}, hours},
		"another case":        {client.AuditFilter{Actor: "Ada"}, 0},
		"actor of no account": {client.AuditFilter{Actor: "ada", Account: "acc_bob"}, 0},
		"until":               {client.AuditFilter{Until: hour(2)}, 2 * 3},
		"since and until":     {client.AuditFilter{Since: hour(1), Until: hour(4)}, 3 * 3},
		"all of them":         {client.AuditFilter{Actor: "bob", Account: "acc_bob", Since: hour(1), Until: hour(4)}, 3},
		"until the day":       {client.AuditFilter{Until: "2126-11-20"}, 0},
		"until the next day":  {client.AuditFilter{Until: "2126-11-21"}, 3 * hours},
		"until before since":  {client.AuditFilter{Since: hour(4), Until: hour(1)}, 0},
	} {
		var lists [2][]string
		for i := range lists {
			test.filter.NewestFirst = i == 1
			all, err := client.All(func(after string) ([]api.AuditEntry, *string, error) {
				page, err := c.Audit(t.Context(), test.filter, after, 2)
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
	for _, filter := range []client.AuditFilter{{Until: "yesterday"}, {Since: "yesterday"}, {Actor: strings.Repeat("a", 201)}} {
		if _, err := c.Audit(t.Context(), filter, "", 0); err == nil || filter.Until != "" && !strings.Contains(err.Error(), "until") {
			t.Errorf("%+v: got %v", filter, err)
		}
	}
}
