package account_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// invite invites a person, and returns the id of the account and the token.
func (f *forgetful) invite(t *testing.T, email account.Email, id, plan string) (string, string) {
	t.Helper()
	a, token, err := f.Invite(t.Context(), email, id, plan, false)
	if err != nil || token == "" || a.Email != email {
		t.Fatalf("got %+v and the token %q, %v", a, token, err)
	}
	return a.ID, token
}

func (f *forgetful) planOf(t *testing.T, id string) string {
	t.Helper()
	known, err := f.gate.Client.Account(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return known.Plan
}

// An invited person chooses a password by the link, once, within 7 days.
func TestInvite(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		ctx := t.Context()
		id, older := f.invite(t, "bob@example.com", "", "")
		if got := f.planOf(t, id); got != "free" {
			t.Errorf("a new account is on %s", got)
		}
		again, token := f.invite(t, "bob@example.com", "", "business")
		if again != id || f.planOf(t, id) != "business" {
			t.Errorf("invited again: got %s on %s, want %s on business", again, f.planOf(t, id), id)
		}
		f.wantNoPassword(t, "bob@example.com", id)
		f.clock = f.clock.Add(7*24*time.Hour - time.Millisecond)
		if _, err := f.FindReset(ctx, older); !errors.Is(err, account.ErrReset) {
			t.Errorf("the older link: got %v", err)
		}
		if _, err := f.ResetPassword(ctx, token, other); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Login(ctx, "bob@example.com", other); err != nil {
			t.Errorf("the chosen password: got %v", err)
		}
		if a, token, err := f.Invite(ctx, "bob@example.com", "", "starter", false); !errors.Is(err, account.ErrMember) || token != "" || a.ID != id {
			t.Errorf("with a password: got %s, %q, %v", a.ID, token, err)
		}
		if got := f.planOf(t, id); got != "business" {
			t.Errorf("a skipped line changed the plan to %s", got)
		}
		_, late := f.invite(t, "cleo@example.com", "", "")
		f.clock = f.clock.Add(account.InviteLifetime)
		if _, err := f.FindReset(ctx, late); !errors.Is(err, account.ErrReset) {
			t.Errorf("after 7 days: got %v", err)
		}
	})
}

// Threat: an account without a password is open to an empty one, or to any.
func (f *forgetful) wantNoPassword(t *testing.T, email account.Email, id string) {
	t.Helper()
	ctx := t.Context()
	for _, guess := range []string{"", password, "$argon2id$"} {
		_, login := f.Login(ctx, string(email), guess)
		_, signIn := f.SignIn(ctx, string(email), guess)
		_, change := f.ChangePassword(ctx, id, guess, other)
		for name, err := range map[string]error{"Login": login, "SignIn": signIn, "ChangePassword": change, "Close": f.Close(ctx, id, guess)} {
			if !errors.Is(err, account.ErrCredentials) {
				t.Errorf("%s with %q: got %v, want ErrCredentials", name, guess, err)
			}
		}
	}
	if c, err := f.store.ByID(ctx, id); err != nil || c.Hash != "" || c.Version != 1 {
		t.Errorf("got %+v, %v; want no hash", c, err)
	}
}

// An account of the gate keeps its plan and keys. Threat: a line takes the
// account of another person.
func TestInviteToAnAccount(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		ctx := t.Context()
		if _, err := f.gate.Client.PutAccount(ctx, "shop-7", api.AccountChange{Plan: new("starter")}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.gate.Client.CreateKey(ctx, "shop-7", api.KeyRequest{Name: "ci"}); err != nil {
			t.Fatal(err)
		}
		f.invite(t, "shop@example.com", "shop-7", "")
		known, err := f.gate.Client.Account(ctx, "shop-7")
		if err != nil || known.Plan != "starter" || known.Label != "shop@example.com" || f.keys(t, "shop-7", "") != 1 {
			t.Errorf("got %+v, %v, and %d keys", known, err, f.keys(t, "shop-7", ""))
		}
		before := f.stored(t)
		for name, line := range map[string]struct {
			email    account.Email
			id, plan string
			want     error
		}{
			"the account of another": {"eve@example.com", "shop-7", "", account.ErrEmailTaken},
			"of one with a password": {"eve@example.com", f.ada.ID, "", account.ErrEmailTaken},
			"another account":        {"ada@example.com", "shop-7", "", account.ErrEmailTaken},
			"a path":                 {"eve@example.com", "../shop-7", "", api.ErrInvalidAccount},
			"unknown plan":           {"eve@example.com", "", "platinum", nil},
		} {
			_, token, err := f.Invite(ctx, line.email, line.id, line.plan, false)
			if err == nil || token != "" || line.want != nil && !errors.Is(err, line.want) {
				t.Errorf("%s: got %q, %v; want %v", name, token, err, line.want)
			}
		}
		a, token, err := f.Invite(ctx, "eve@example.com", "shop-8", "", true)
		if err != nil || token != "" || a.ID != "shop-8" {
			t.Errorf("dry run: got %+v, %q, %v", a, token, err)
		}
		if _, _, err := f.Invite(ctx, "eve@example.com", "../shop-7", "", true); !errors.Is(err, api.ErrInvalidAccount) {
			t.Errorf("dry run of a path: got %v", err)
		}
		f.gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
		if _, _, err := f.Invite(ctx, "eve@example.com", "", "", false); !errors.Is(err, account.ErrGate) {
			t.Errorf("without the gate: got %v", err)
		}
		f.gate.Fail(nil)
		if got, _ := f.gate.Client.Account(ctx, "shop-7"); f.stored(t) != before || got.Label != "shop@example.com" {
			t.Errorf("%d accounts are stored, want %d; the gate has %+v", f.stored(t), before, got)
		}
	})
}
