package account_test

import (
	"errors"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// SignIn works with the right password only, on a plan without access too, and
// creates no token.
func TestSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	for _, plan := range []string{"starter", "free"} {
		a := w.add(t, account.Email(plan+"@example.com"), plan)
		got, err := w.SignIn(ctx, plan+"@example.com", password)
		if err != nil || got != (account.Identity{Account: a, Version: 1}) {
			t.Errorf("%s: got %+v, %v", plan, got, err)
		}
		if n := w.logins(t, a.ID); n != 0 {
			t.Errorf("%s: %d login tokens, want none", plan, n)
		}
	}
	closed := w.add(t, "closed@example.com", "starter")
	if err := w.Set(ctx, closed.ID, api.AccountChange{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	for email, given := range map[string]string{
		"starter@example.com": other, "nobody@example.com": password, "closed@example.com": password, "": "",
	} {
		if _, err := w.SignIn(ctx, email, given); !errors.Is(err, account.ErrCredentials) {
			t.Errorf("%q: got %v, want ErrCredentials", email, err)
		}
	}
	w.gate.Stop()
	if _, err := w.SignIn(ctx, "starter@example.com", password); !errors.Is(err, account.ErrGate) {
		t.Errorf("without the gate: got %v, want ErrGate", err)
	}
}
