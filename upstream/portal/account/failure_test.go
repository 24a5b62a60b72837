package account_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// If the gate is unreachable, every change but that of a password fails with
// ErrGate.
func TestGateDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	w.gate.Stop()

	ctx := t.Context()
	_, add := w.Add(ctx, "bob@example.com", password, "starter")
	_, login := w.Login(ctx, "ada@example.com", password)
	_, stranger := w.Login(ctx, "eve@example.com", password)
	_, list := w.List(ctx)
	for name, err := range map[string]error{
		"Add":             add,
		"Login":           login,
		"Login, stranger": stranger,
		"List":            list,
		"SetPlan":         w.Set(ctx, a.ID, api.AccountChange{Plan: new("business")}),
		"SetDisabled":     w.Set(ctx, a.ID, api.AccountChange{Disabled: new(true)}),
		"Delete":          w.Delete(ctx, a.ID),
	} {
		if !errors.Is(err, account.ErrGate) {
			t.Errorf("%s: got %v, want ErrGate", name, err)
		}
	}
	c, err := w.store.ByID(ctx, a.ID)
	if err != nil || c.Version != 1 || w.stored(t) != 1 {
		t.Errorf("got %+v, %v, %d stored; want the one account unchanged", c.Account, err, w.stored(t))
	}
}

// The gate made the account and its answer was lost: the upstream stores
// nothing, so the gate must forget it again.
func TestAddWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodPut, ""), Late: true})
	_, err := w.Add(t.Context(), "ada@example.com", password, "starter")
	if !errors.Is(err, account.ErrGate) {
		t.Errorf("got %v, want ErrGate", err)
	}
	if got := w.atGate(t); len(got) != 0 || w.stored(t) != 0 {
		t.Errorf("the gate knows %v, %d stored; want none", got, w.stored(t))
	}
	w.gate.Fail(nil)
	w.add(t, "ada@example.com", "starter")
}

// badCommit is a database whose changes are reported as failed.
type badCommit struct {
	account.Store
	made bool // although they were made
}

var errCommit = errors.New("connection lost")

func (s badCommit) Add(ctx context.Context, a account.Account, hash string) error {
	if !s.made {
		return errCommit
	}
	return errors.Join(s.Store.Add(ctx, a, hash), errCommit)
}

func (s badCommit) SetPassword(ctx context.Context, change account.Credential) error {
	if !s.made {
		return errCommit
	}
	return errors.Join(s.Store.SetPassword(ctx, change), errCommit)
}

// slowCommit is a database in which something happens right before a
// change.
type slowCommit struct {
	account.Store
	meanwhile func()
}

func (s slowCommit) SetPassword(ctx context.Context, change account.Credential) error {
	s.meanwhile()
	return s.Store.SetPassword(ctx, change)
}

func (s slowCommit) Remove(ctx context.Context, id string) error {
	s.meanwhile()
	return s.Store.Remove(ctx, id)
}

// What the database says of a commit is not always so. What is stored tells.
func TestAddWhenTheCommitFails(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{false, true} {
		w := newWorld(t)
		_, err := service(badCommit{w.store, made}, w.gate).Add(t.Context(), "ada@example.com", password, "starter")
		if made != (err == nil) || !made && !errors.Is(err, errCommit) {
			t.Errorf("made %v: got %v", made, err)
		}
		want := 0
		if made {
			want = 1
		}
		if got := w.atGate(t); len(got) != want || w.stored(t) != want {
			t.Errorf("made %v: the gate knows %v, %d stored; want %d", made, got, w.stored(t), want)
		}
	}
}

func TestSetPasswordWhenTheCommitFails(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]bool{"not made": false, "made all the same": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ctx := t.Context()
			a := w.add(t, "ada@example.com", "starter")
			if _, err := w.Login(ctx, "ada@example.com", password); err != nil {
				t.Fatal(err)
			}
			err := service(badCommit{w.store, made}, w.gate).SetPassword(ctx, a.ID, other)
			if made != (err == nil) || !made && !errors.Is(err, errCommit) {
				t.Errorf("got %v", err)
			}
			if got := w.logins(t, a.ID); made != (got == 0) {
				t.Errorf("%d login tokens live", got)
			}
			works := password
			if made {
				works = other
			}
			if _, err := w.Login(ctx, "ada@example.com", works); err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Threat: an attacker who knows the old password logs in while it is
// changed, and keeps a token.
func TestLoginOvertakenByNewPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	var once atomic.Bool
	w.gate.Fail(&gatetest.Fault{
		Hits: func(r *http.Request) bool { return r.Method == http.MethodPost && once.CompareAndSwap(false, true) },
		Hook: func() {
			if err := w.SetPassword(t.Context(), a.ID, other); err != nil {
				t.Error(err)
			}
		},
	})
	if _, err := w.Login(t.Context(), "ada@example.com", password); !errors.Is(err, account.ErrCredentials) {
		t.Errorf("got %v, want ErrCredentials", err)
	}
	if got := w.logins(t, a.ID); got != 0 {
		t.Errorf("%d logins live, want 0", got)
	}
}

// The same, with a login that is over right before the change is stored.
func TestLoginRightBeforeNewPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	s := service(slowCommit{w.store, func() {
		if _, err := w.Login(t.Context(), "ada@example.com", password); err != nil {
			t.Error(err)
		}
	}}, w.gate)
	if err := s.SetPassword(t.Context(), a.ID, other); err != nil {
		t.Fatal(err)
	}
	if got := w.logins(t, a.ID); got != 0 {
		t.Errorf("%d logins live, want 0", got)
	}
}

// An operator gives the account another plan while it is deleted, which
// makes it anew at the gate.
func TestSetPlanWhileDeleting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	s := service(slowCommit{w.store, func() {
		if err := w.Set(t.Context(), a.ID, api.AccountChange{Plan: new("business")}); err != nil {
			t.Error(err)
		}
	}}, w.gate)
	if err := s.Delete(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.atGate(t); len(got) != 0 {
		t.Errorf("the gate knows %v, want none", got)
	}
}

// The gate forgot the account and its answer was lost: what is left has
// no token, and deleting again completes the work.
func TestDeleteWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a := w.add(t, "ada@example.com", "starter")
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodDelete, ""), Late: true})
	if err := w.Delete(ctx, a.ID); !errors.Is(err, account.ErrGate) {
		t.Errorf("got %v, want ErrGate", err)
	}
	w.gate.Fail(nil)
	if _, err := w.Login(ctx, "ada@example.com", password); !errors.Is(err, account.ErrPlanRequired) {
		t.Errorf("login in between: got %v, want ErrPlanRequired", err)
	}
	if err := w.Delete(ctx, a.ID); err != nil || w.stored(t) != 0 {
		t.Errorf("again: %v, %d stored", err, w.stored(t))
	}
}
