package report_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// TestSlowPages: a page of a list ends early when the store is slow, and the next
// page goes on there. No row is missing.
func TestSlowPages(t *testing.T) {
	t.Parallel()
	engine, g, c := overReads(t)
	const accounts, entries = 2500, 350
	putAccounts(t, g, accounts)
	err := errors.Join(g.Opened().Change(t.Context(), controltest.Start, []string{"acc_00000"}, func(_ int, a *book.Account) error {
		for i := range entries {
			a.Record(store.Entry{At: controltest.Start, Action: api.KeyCreate, Target: fmt.Sprint(i), ActorID: []string{"ada", "bob"}[i%2]})
		}
		return nil
	})...)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		took     time.Duration // each read of the store
		accounts int           // pages
		entries  int           // pages
	}{
		"quick": {0, 1, 1},
		"slow":  {151 * time.Millisecond, 3, 4},
	} {
		engine.listed.set(func() { g.Advance(test.took) })
		engine.entries.set(func() { g.Advance(test.took) })
		pages := 0
		_, err := client.All(func(after string) ([]api.Account, *string, error) {
			pages++
			page, err := c.Accounts(t.Context(), api.AccountQuery{Search: "nobody", After: after})
			return page.Accounts, page.Next, err
		})
		if err != nil || pages != test.accounts {
			t.Errorf("%s: got %d pages of accounts, %v", name, pages, err)
		}
		found, err := client.All(func(after string) ([]api.Account, *string, error) {
			page, err := c.Accounts(t.Context(), api.AccountQuery{Plan: "starter", After: after, Limit: 1000})
			return page.Accounts, page.Next, err
		})
		if err != nil || len(found) != accounts {
			t.Errorf("%s: got %d accounts, %v", name, len(found), err)
		}
		for _, order := range []string{"asc", "desc"} {
			for _, limit := range []int{1000, 49} { // a read of the store has 50 of them
				pages = 0
				found, err := client.All(func(after string) ([]api.AuditEntry, *string, error) {
					pages++
					page, err := c.Audit(t.Context(), api.AuditQuery{Actor: "bob", Order: order, After: after, Limit: limit})
					return page.Audit, page.Next, err
				})
				if err != nil || limit == 1000 && pages != test.entries || len(found) != entries/2 || (found[0].Target == "1") == (order == "desc") {
					t.Errorf("%s, %s: got %d entries on %d pages of %d, %v", name, order, len(found), pages, limit, err)
				}
			}
		}
	}
}
