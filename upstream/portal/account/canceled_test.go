package account_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// TestCanceledCaller: a person closes the page, or a client its connection,
// while the gate works. The change is complete, or nothing is left of it.
func TestCanceledCaller(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		during func(*http.Request) bool // the call of the gate that sees the end
		do     func(ctx context.Context, w *world, id string) error
		left   func(t *testing.T, w *world, id string)
	}{
		"close": {
			gatetest.Requests(http.MethodDelete, ""),
			func(ctx context.Context, w *world, id string) error { return w.Close(ctx, id, password) },
			func(t *testing.T, w *world, id string) {
				if got := w.atGate(t); len(got) != 0 || w.stored(t) != 0 {
					t.Errorf("the gate knows %v, %d stored, want none", got, w.stored(t))
				}
			},
		},
		"sign up": {
			gatetest.Requests(http.MethodPut, ""),
			func(ctx context.Context, w *world, _ string) error {
				if _, err := w.SignUp(ctx, "bob@example.com", password, "free"); !errors.Is(err, context.Canceled) {
					return errors.Join(errors.New("not canceled"), err)
				}
				return nil
			},
			func(t *testing.T, w *world, _ string) {
				if got := w.atGate(t); len(got) != 1 || w.stored(t) != 1 {
					t.Errorf("the gate knows %v, %d stored, want ada alone", got, w.stored(t))
				}
			},
		},
		"change the password": {
			gatetest.Requests(http.MethodDelete, "/logins"),
			func(ctx context.Context, w *world, id string) error {
				_, err := w.ChangePassword(ctx, id, password, other)
				return err
			},
			func(t *testing.T, w *world, id string) {
				left, err := w.store.LoginsToEnd(t.Context(), "", 10)
				if n := w.logins(t, id); err != nil || len(left) != 0 || n != 0 {
					t.Errorf("%d login tokens live, left to do: %v, %v", n, left, err)
				}
			},
		},
		"login": {
			gatetest.Requests(http.MethodPost, "/keys"),
			func(ctx context.Context, w *world, _ string) error {
				if _, err := w.Login(ctx, "ada@example.com", password); !errors.Is(err, context.Canceled) {
					return errors.Join(errors.New("not canceled"), err)
				}
				return nil
			},
			func(t *testing.T, w *world, id string) {
				if n := w.logins(t, id); n != 1 {
					t.Errorf("%d login tokens live, want the one from before", n)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.add(t, "ada@example.com", "starter")
			if _, err := w.Login(t.Context(), "ada@example.com", password); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.gate.Fail(&gatetest.Fault{Hits: c.during, Hook: cancel})
			if err := c.do(ctx, w, a.ID); err != nil || ctx.Err() == nil {
				t.Errorf("got %v; canceled: %v", err, ctx.Err())
			}
			w.gate.Fail(nil)
			c.left(t, w, a.ID)
		})
	}
}

// lostCommit is a database whose answer to a change of password is lost with
// the caller.
type lostCommit struct {
	account.Store
	cancel func()
}

func (s lostCommit) SetPassword(ctx context.Context, change account.Credential) error {
	err := s.Store.SetPassword(ctx, change)
	s.cancel()
	return errors.Join(err, errCommit)
}

// TestCanceledCommit: the change is stored, and the tokens end, although the
// answer of the database and the caller are lost.
func TestCanceledCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add(t, "ada@example.com", "starter")
	if _, err := w.Login(t.Context(), "ada@example.com", password); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := service(lostCommit{w.store, cancel}, w.gate).SetPassword(ctx, a.ID, other); err != nil {
		t.Error(err)
	}
	if n := w.logins(t, a.ID); n != 0 {
		t.Errorf("%d login tokens live, want none", n)
	}
}
