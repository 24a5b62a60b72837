package account_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// TestLabels: each change sets the e-mail as the label, also of an account
// that has none.
func TestLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := account.Email("a@" + strings.Repeat(strings.Repeat("x", 60)+".", 4) + "example")
	for _, email := range []account.Email{"ada@example.com", long} {
		a := w.add(t, email, "starter")
		want := string(email[:min(len(email), api.MaxLabel)])
		if got, err := w.gate.Client.Account(t.Context(), a.ID); err != nil || got.Label != want {
			t.Errorf("a new account: got %+v, %v, want the label %s", got, err, want)
		}
		for name, change := range map[string]func() error{
			"plan":    func() error { return w.Set(t.Context(), a.ID, api.AccountChange{Plan: new("business")}) },
			"disable": func() error { return w.Set(t.Context(), a.ID, api.AccountChange{Disabled: new(true)}) },
			"enable":  func() error { return w.Set(t.Context(), a.ID, api.AccountChange{Disabled: new(false)}) },
		} {
			if _, err := w.gate.Client.PutAccount(t.Context(), a.ID, api.AccountChange{Label: new("")}); err != nil {
				t.Fatal(err)
			}
			if err := change(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, err := w.gate.Client.Account(t.Context(), a.ID); err != nil || got.Label != want {
				t.Errorf("%s: got %+v, %v, want the label %s", name, got, err, want)
			}
		}
	}
}

// TestClosedAccountLeavesNoEmail: after a person closes the account, the gate's
// log of changes has the id of the account, and nowhere the e-mail.
func TestClosedAccountLeavesNoEmail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	if err := w.Set(t.Context(), a.ID, api.AccountChange{Plan: new("business")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context(), a.ID, password); err != nil {
		t.Fatal(err)
	}
	page, err := w.gate.Client.Audit(t.Context(), client.AuditFilter{}, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Audit {
		if text := fmt.Sprintf("%+v %s %s", e, e.Before, e.After); strings.Contains(text, "ada@") || e.Account != a.ID {
			t.Errorf("an entry has %s", text)
		}
	}
	if len(page.Audit) < 3 {
		t.Errorf("got %d entries", len(page.Audit))
	}
}
