package account_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// anyRequest makes the gate fail whatever it is asked.
func anyRequest(*http.Request) bool { return true }

// awaitLogins waits until an account has so many live login tokens.
func (w *world) awaitLogins(t *testing.T, id string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for w.logins(t, id) != want {
		select {
		case <-ctx.Done():
			t.Fatalf("%d login tokens live, want %d", w.logins(t, id), want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A password is changed although the gate does not answer, and the login
// tokens end as soon as it does.
func TestPasswordIsChangedWithoutTheGate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world, string) error{
		"person": func(w *world, id string) error {
			who, err := w.ChangePassword(t.Context(), id, password, other)
			if who.Version != 2 {
				t.Errorf("got version %d, want 2", who.Version)
			}
			return err
		},
		"operator": func(w *world, id string) error { return w.SetPassword(t.Context(), id, other) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ctx, stop := context.WithCancel(t.Context())
			a := w.add(t, "ada@example.com", "starter")
			for range 3 {
				if _, err := w.Login(ctx, "ada@example.com", password); err != nil {
					t.Fatal(err)
				}
			}
			w.gate.Fail(&gatetest.Fault{Hits: anyRequest})
			if err := change(w, a.ID); !errors.Is(err, account.ErrLoginsLive) || !errors.Is(err, account.ErrGate) {
				t.Errorf("got %v, want ErrLoginsLive because of ErrGate", err)
			}
			var running sync.WaitGroup
			running.Go(func() { w.Run(ctx, time.Millisecond) })
			w.gate.Fail(nil)
			w.awaitLogins(t, a.ID, 0)
			stop()
			running.Wait()
			if _, err := w.Login(t.Context(), "ada@example.com", password); !errors.Is(err, account.ErrCredentials) {
				t.Errorf("old password: got %v", err)
			}
			if _, err := w.Login(t.Context(), "ada@example.com", other); err != nil {
				t.Errorf("new password: got %v", err)
			}
		})
	}
}

// The process ends after a change was stored and before the gate was
// asked: the next one asks it.
func TestLoginsEndAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a := w.add(t, "ada@example.com", "starter")
	if _, err := w.Login(ctx, "ada@example.com", password); err != nil {
		t.Fatal(err)
	}
	if err := w.store.SetPassword(ctx, account.Credential{Identity: account.Identity{Account: a, Version: 1}, Hash: "x"}); err != nil {
		t.Fatal(err)
	}
	next := service(w.store, w.gate)
	if err := next.EndLogins(ctx); err != nil {
		t.Fatal(err)
	}
	if got := w.logins(t, a.ID); got != 0 {
		t.Errorf("%d login tokens live, want 0", got)
	}
	if left, err := w.store.LoginsToEnd(ctx, "", 10); err != nil || len(left) != 0 {
		t.Errorf("left to do: %v, %v", left, err)
	}
}

// A login with the new password, after the gate is back and before the old
// login tokens have ended, ends those and keeps its own.
func TestLoginBeforeOlderLoginsHaveEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a := w.add(t, "ada@example.com", "starter")
	for range 3 {
		if _, err := w.Login(ctx, "ada@example.com", password); err != nil {
			t.Fatal(err)
		}
	}
	w.gate.Fail(&gatetest.Fault{Hits: anyRequest})
	if err := w.SetPassword(ctx, a.ID, other); !errors.Is(err, account.ErrLoginsLive) {
		t.Fatal(err)
	}
	// While they cannot be ended, there is no token to mix up with them.
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodDelete, "/logins")})
	if _, err := w.Login(ctx, "ada@example.com", other); !errors.Is(err, account.ErrGate) {
		t.Errorf("got %v, want ErrGate", err)
	}
	w.gate.Fail(nil)
	if _, err := w.Login(ctx, "ada@example.com", other); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.EndLogins(ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.logins(t, a.ID); got != 1 {
			t.Errorf("%d login tokens live, want the new one", got)
		}
	}
}

// Many logins with the new password at once, while the old login tokens
// end: none ends what another has made.
func TestLoginsWhileOlderLoginsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a := w.add(t, "ada@example.com", "starter")
	if _, err := w.Login(ctx, "ada@example.com", password); err != nil {
		t.Fatal(err)
	}
	w.gate.Fail(&gatetest.Fault{Hits: anyRequest})
	if err := w.SetPassword(ctx, a.ID, other); !errors.Is(err, account.ErrLoginsLive) {
		t.Fatal(err)
	}
	w.gate.Fail(nil)
	const logins = 8
	var all sync.WaitGroup
	all.Go(func() {
		if err := w.EndLogins(ctx); err != nil {
			t.Error(err)
		}
	})
	for range logins {
		all.Go(func() {
			if _, err := w.Login(ctx, "ada@example.com", other); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := w.logins(t, a.ID); got != logins {
		t.Errorf("%d login tokens live, want the %d new ones", got, logins)
	}
}

// Threat: an attacker changes a password over and over, and keeps the gate
// and the database busy, or the owner from changing it.
func TestPasswordChangesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a := w.add(t, "ada@example.com", "starter")
	clock := now
	s := serviceWith(w.store, w.gate, accounttest.Hasher(), func() time.Time { return clock })
	chosen := func(n int) string { return fmt.Sprintf("trombone velvet acorn %d", n) }
	if err := s.SetPassword(ctx, a.ID, chosen(0)); err != nil {
		t.Fatal(err)
	}
	n := 0
	change := func() (account.Identity, error) {
		who, err := s.ChangePassword(ctx, a.ID, chosen(n), chosen(n+1))
		if err == nil {
			n++
		}
		return who, err
	}
	wantWait := func(want time.Duration) {
		t.Helper()
		who, err := change()
		if !errors.Is(err, account.ErrTooManyChanges) || who.ChangeIn(clock) != want {
			t.Errorf("change %d: got %v and a wait of %v, want ErrTooManyChanges and %v", n+1, err, who.ChangeIn(clock), want)
		}
	}
	for range 10 {
		if _, err := change(); err != nil {
			t.Fatalf("change %d: %v", n+1, err)
		}
	}
	wantWait(6 * time.Minute)
	clock = clock.Add(4 * time.Minute)
	wantWait(2 * time.Minute)
	// Neither a wrong password nor a refusal uses the allowance.
	if _, err := s.ChangePassword(ctx, a.ID, "a wrong guess", other); !errors.Is(err, account.ErrCredentials) {
		t.Errorf("wrong password: got %v", err)
	}
	clock = clock.Add(2 * time.Minute)
	if _, err := change(); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	wantWait(6 * time.Minute)

	// The operator is not limited, and leaves the person's limit alone.
	for range 3 {
		if err := s.SetPassword(ctx, a.ID, chosen(n)); err != nil {
			t.Errorf("operator: %v", err)
		}
	}
	wantWait(6 * time.Minute)

	// A clock that was far ahead does not close the account's page.
	clock = clock.Add(-365 * 24 * time.Hour)
	if _, err := change(); err != nil {
		t.Errorf("with the clock set right: %v", err)
	}
}

// Threat: a slow gate keeps the database locked, and others from signing
// in. While the gate is asked, every other change is stored at once.
func TestNoTransactionWaitsForTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	ada := w.add(t, "ada@example.com", "starter")
	bob := w.add(t, "bob@example.com", "starter")
	var asked atomic.Int64
	w.gate.Fail(&gatetest.Fault{Hits: func(r *http.Request) bool { return r.Method != http.MethodGet }, Hook: func() {
		n := asked.Add(1)
		// Less than the gate may take.
		short, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		if err := w.store.Rehash(short, bob.ID, 1, fmt.Sprint(n)); err != nil {
			t.Errorf("another change while the gate is asked: %v", err)
		}
	}})
	_, change := w.ChangePassword(ctx, ada.ID, password, other)
	_, add := w.Add(ctx, "cleo@example.com", password, "starter")
	for name, err := range map[string]error{
		"ChangePassword": change,
		"Add":            add,
		"SetPassword":    w.SetPassword(ctx, ada.ID, password),
		"SetPlan":        w.Set(ctx, ada.ID, api.AccountChange{Plan: new("business")}),
		"SetDisabled":    w.Set(ctx, ada.ID, api.AccountChange{Disabled: new(true)}),
		"Delete":         w.Delete(ctx, ada.ID),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := asked.Load(); n < 7 {
		t.Errorf("the gate was asked %d times, want at least 7", n)
	}
}

// Threat: an account gets the rights of an operator, and the audit log lacks it
// or says the opposite.
func TestSetOperator(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		ctx := client.WithReason(t.Context(), "on call")
		set := func(id string, operator bool, want error) {
			t.Helper()
			if err := f.SetOperator(ctx, id, operator); !errors.Is(err, want) {
				t.Errorf("%s, %t: got %v, want %v", id, operator, err, want)
			}
		}
		wantOperator := func(want bool) {
			t.Helper()
			if who, err := f.Identify(ctx, f.ada.ID); err != nil || who.Operator != want {
				t.Errorf("got %+v, %v; want operator %t", who, err, want)
			}
		}
		set(f.ada.ID, true, nil)
		wantOperator(true)
		f.gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
		set(f.ada.ID, false, account.ErrGate)
		f.gate.Fail(nil)
		wantOperator(true)
		set(f.ada.ID, false, nil)
		wantOperator(false)
		if _, err := f.gate.Client.PutAccount(ctx, "shop-7", api.AccountChange{}); err != nil {
			t.Fatal(err)
		}
		set("shop-7", true, account.ErrNotFound) // only the gate knows it
		log, err := f.gate.Client.Audit(ctx, api.AuditQuery{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range log.Audit {
			if e.Action == api.OperatorGrant || e.Action == api.OperatorRevoke {
				got = append(got, e.Action+" "+e.Account+" "+e.Reason)
			}
		}
		if want := []string{api.OperatorGrant + " " + f.ada.ID + " on call", api.OperatorRevoke + " " + f.ada.ID + " on call"}; !slices.Equal(got, want) {
			t.Errorf("got the entries %q, want %q", got, want)
		}
	})
}
