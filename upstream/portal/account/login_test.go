package account_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// Threat: the answer reveals whether an address has an account, or that a
// password was right, by its content or by the work that it took.
func TestLoginRefusalsAreAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add(t, "ada@example.com", "starter")
	closed := w.add(t, "closed@example.com", "starter")
	if err := w.Set(t.Context(), closed.ID, api.AccountChange{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ email, password string }{
		"wrong password":                     {"ada@example.com", other},
		"unknown address":                    {"eve@example.com", password},
		"no address":                         {"not an address", password},
		"right password, disabled":           {"closed@example.com", password},
		"wrong password, disabled":           {"closed@example.com", other},
		"empty password":                     {"ada@example.com", ""},
		"right password and more than fits":  {"ada@example.com", password + strings.Repeat(" ", 1024)},
		"password that is no text":           {"ada@example.com", "\xff\xfe"},
		"unknown address, password too long": {"eve@example.com", strings.Repeat("x", 2000)},
	} {
		asked := []string{}
		var lock sync.Mutex
		w.gate.Fail(&gatetest.Fault{Hits: func(r *http.Request) bool {
			lock.Lock()
			defer lock.Unlock()
			asked = append(asked, r.Method)
			return false
		}})
		_, err := w.Login(t.Context(), c.email, c.password)
		w.gate.Fail(nil)
		if err == nil || err.Error() != account.ErrCredentials.Error() || !errors.Is(err, account.ErrCredentials) {
			t.Errorf("%s: got %v", name, err)
		}
		if len(asked) != 1 {
			t.Errorf("%s: the gate was asked %v, want one question in every case", name, asked)
		}
	}
	if got := w.logins(t, ada.ID) + w.logins(t, closed.ID); got != 0 {
		t.Errorf("%d logins live, want 0", got)
	}
}

func TestLoginNeedsAPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(t, "ada@example.com", "free")
	if _, err := w.Login(t.Context(), "ada@example.com", password); !errors.Is(err, account.ErrPlanRequired) {
		t.Errorf("got %v, want ErrPlanRequired", err)
	}
	if _, err := w.Login(t.Context(), "ada@example.com", other); !errors.Is(err, account.ErrCredentials) {
		t.Errorf("wrong password: got %v, which reveals the plan", err)
	}
}

// An account is closed or deleted between the check of its password and the
// token.
func TestLoginOvertaken(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, id string) error{
		"disabled": func(w *world, id string) error { return w.Set(t.Context(), id, api.AccountChange{Disabled: new(true)}) },
		"deleted":  func(w *world, id string) error { return w.Delete(t.Context(), id) },
	} {
		w := newWorld(t)
		a := w.add(t, "ada@example.com", "starter")
		w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodPost, "/keys"), Hook: func() {
			if err := change(w, a.ID); err != nil {
				t.Error(err)
			}
		}})
		if _, err := w.Login(t.Context(), "ada@example.com", password); err == nil || name == "disabled" && !errors.Is(err, account.ErrCredentials) {
			t.Errorf("%s: got %v", name, err)
		}
		if got := w.atGate(t); name == "deleted" && len(got) != 0 {
			t.Errorf("the gate knows %v, want none", got)
		}
	}
}

// A login hashes the password again, once, if its hash has another cost. The
// password stays the same.
func TestLoginRenewsTheHash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	cost := accounttest.Cost
	cost.Passes = 3
	s := serviceWith(w.store, w.gate, account.NewHasher(cost, 4), time.Now)
	hash := func() string {
		c, err := w.store.ByID(t.Context(), a.ID)
		if err != nil || c.Version != 1 {
			t.Errorf("got version %d, %v; want 1", c.Version, err)
		}
		return c.Hash
	}
	old := hash()
	if _, err := s.Login(t.Context(), "ada@example.com", other); err == nil || hash() != old {
		t.Error("a wrong password renewed the hash")
	}
	if _, err := s.Login(t.Context(), "ada@example.com", password); err != nil {
		t.Fatal(err)
	}
	renewed := hash()
	if !strings.Contains(renewed, "$m=8,t=3,p=1$") {
		t.Errorf("got hash %q, want one of the new cost", renewed)
	}
	if _, err := s.Login(t.Context(), "ada@example.com", password); err != nil || hash() != renewed {
		t.Errorf("the second login: %v", err)
	}
}

// TestLoginUnknownToTheGate: the gate has lost a person who has a password. The
// account is made there with the e-mail, on plan free, if that plan has access and
// the person is not deleted in between.
func TestLoginUnknownToTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plans := api.Plans{
		Endpoints: []api.Endpoint{{Name: "rates", Method: "GET", Path: "/api/rates/{base}", Patterns: []string{"GET /api/rates/{base}"}}},
		Plans:     []api.Plan{{Name: "free", Limits: map[string]*int64{"rates": new(int64(5))}}},
	}
	w.gate.Control.SetPlans(t, plans)
	a := w.add(t, "ada@example.com", "free")
	for name, do := range map[string]func() error{
		"a login": func() error { _, err := w.Login(t.Context(), "ada@example.com", password); return err },
		"a key":   func() error { _, err := w.CreateKey(t.Context(), a.ID, api.KeyRequest{Name: "ci"}); return err },
	} {
		if err := w.gate.Client.DeleteAccount(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := w.gate.Client.Account(t.Context(), a.ID); err != nil || got.Plan != "free" || got.Label != "ada@example.com" {
			t.Errorf("%s: the gate has %+v, %v", name, got, err)
		}
	}
	if _, err := w.CreateKey(t.Context(), "acc_other", api.KeyRequest{Name: "ci"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("an id that no person has: got %v", err)
	}
	if got := w.atGate(t); len(got) != 1 {
		t.Errorf("the gate knows %v", got)
	}

	if err := w.gate.Client.DeleteAccount(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	w.gate.Control.SetPlans(t, api.Plans{Plans: []api.Plan{{Name: "free"}}})
	if _, err := w.Login(t.Context(), "ada@example.com", password); !errors.Is(err, account.ErrPlanRequired) || len(w.atGate(t)) != 0 {
		t.Errorf("a plan free without access: got %v, and the gate knows %v", err, w.atGate(t))
	}
	w.gate.Control.SetPlans(t, plans)
	deleted := errors.New("not deleted")
	w.gate.Fail(&gatetest.Fault{
		Hits: func(r *http.Request) bool { return r.Method == http.MethodPut },
		Hook: func() { deleted = w.Delete(t.Context(), a.ID) },
	})
	if _, err := w.CreateKey(t.Context(), a.ID, api.KeyRequest{Name: "ci"}); deleted != nil || !errors.Is(err, api.ErrNotFound) || len(w.atGate(t)) != 0 {
		t.Errorf("a person who is deleted in between: got %v, %v, and the gate knows %v", deleted, err, w.atGate(t))
	}
}

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
