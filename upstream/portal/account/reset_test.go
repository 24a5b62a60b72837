package account_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest/postgrestest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// forgetful is a service with the account ada, who forgot the password, and a
// clock that the test sets.
type forgetful struct {
	*world
	ada   account.Account
	clock time.Time
}

// onBoth runs a test over a database of each kind.
func onBoth(t *testing.T, test func(t *testing.T, f *forgetful)) {
	t.Helper()
	run := func(t *testing.T, store *database.Store) {
		t.Parallel()
		gate := gatetest.Start(t)
		f := &forgetful{clock: now}
		f.world = &world{serviceWith(store, gate, accounttest.Hasher(), func() time.Time { return f.clock }), gate, store}
		f.ada = f.add(t, "ada@example.com", "starter")
		test(t, f)
	}
	t.Run("SQLite", func(t *testing.T) { run(t, accounttest.Open(t)) })
	t.Run("PostgreSQL", func(t *testing.T) {
		store, err := database.OpenURL(t.Context(), postgrestest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		run(t, store)
	})
}

// link makes a reset link and returns its token.
func (f *forgetful) link(t *testing.T) string {
	t.Helper()
	token, err := f.NewReset(t.Context(), f.ada.ID)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// wantDead fails the test if a link works.
func (f *forgetful) wantDead(t *testing.T, why, token string) {
	t.Helper()
	if _, err := f.FindReset(t.Context(), token); !errors.Is(err, account.ErrReset) {
		t.Errorf("%s: FindReset got %v, want ErrReset", why, err)
	}
	if _, err := f.ResetPassword(t.Context(), token, other); !errors.Is(err, account.ErrReset) {
		t.Errorf("%s: ResetPassword got %v, want ErrReset", why, err)
	}
}

// wantPassword fails the test if the account has another password.
func (f *forgetful) wantPassword(t *testing.T, want string) {
	t.Helper()
	if _, err := f.SignIn(t.Context(), "ada@example.com", want); err != nil {
		t.Errorf("signing in: %v", err)
	}
}

func TestResetLinkWorksOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		ctx := t.Context()
		if _, err := f.Login(ctx, "ada@example.com", password); err != nil {
			t.Fatal(err)
		}
		before, err := f.Identify(ctx, f.ada.ID)
		if err != nil {
			t.Fatal(err)
		}
		token := f.link(t)
		for range 3 { // a mail scanner opens links
			if got, err := f.FindReset(ctx, token); err != nil || got.ID != f.ada.ID {
				t.Fatalf("got %+v, %v", got, err)
			}
		}
		for _, bad := range []string{"too short", "ada@example.com", "passwordpassword1"} {
			if _, err := f.ResetPassword(ctx, token, bad); !errors.Is(err, account.ErrPassword) {
				t.Errorf("%q: got %v, want ErrPassword", bad, err)
			}
		}
		if got, err := f.ResetPassword(ctx, token, other); err != nil || got.ID != f.ada.ID {
			t.Fatalf("got %+v, %v", got, err)
		}
		f.wantDead(t, "spent", token)
		f.wantPassword(t, other)
		if _, err := f.SignIn(ctx, "ada@example.com", password); !errors.Is(err, account.ErrCredentials) {
			t.Errorf("the old password: got %v, want ErrCredentials", err)
		}
		if got := f.logins(t, f.ada.ID); got != 0 {
			t.Errorf("%d login tokens live, want none", got)
		}
		after, err := f.Identify(ctx, f.ada.ID)
		if err != nil || after.Version == before.Version {
			t.Errorf("the sessions of version %d still work: %v", before.Version, err)
		}
	})
}

func TestResetLinkEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		ctx := t.Context()
		older := f.link(t)
		newer := f.link(t)
		f.wantDead(t, "an older link", older)

		f.clock = now.Add(account.ResetLifetime - time.Millisecond)
		if _, err := f.FindReset(ctx, newer); err != nil {
			t.Errorf("just before its end: %v", err)
		}
		f.clock = now.Add(account.ResetLifetime)
		f.wantDead(t, "expired", newer)

		changed := f.link(t)
		if _, err := f.ChangePassword(ctx, f.ada.ID, password, "a third horse in the stable"); err != nil {
			t.Fatal(err)
		}
		f.wantDead(t, "after a change of password", changed)
		set := f.link(t)
		if err := f.SetPassword(ctx, f.ada.ID, password); err != nil {
			t.Fatal(err)
		}
		f.wantDead(t, "after the operator set a password", set)
		f.wantPassword(t, password)

		deleted := f.link(t)
		if err := f.Delete(ctx, f.ada.ID); err != nil {
			t.Fatal(err)
		}
		f.wantDead(t, "after the account was deleted", deleted)
		if _, err := f.NewReset(ctx, f.ada.ID); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("a link for a deleted account: got %v, want ErrNotFound", err)
		}
		for _, unknown := range []string{"", "x", strings.Repeat("A", 43), strings.Repeat("B", 43) + "\n", strings.Repeat("A", 4000)} {
			f.wantDead(t, "unknown", unknown)
		}
	})
}

// Threat: two people spend one link at once, and both believe that the
// password is theirs.
func TestResetLinkInParallel(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		token := f.link(t)
		var all sync.WaitGroup
		errs := make([]error, 8)
		chosen := func(i int) string { return fmt.Sprintf("trombone velvet acorn %d", i) }
		for i := range errs {
			all.Go(func() { _, errs[i] = f.ResetPassword(t.Context(), token, chosen(i)) })
		}
		all.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won < 0:
				won = i
			case err == nil:
				t.Error("two resets succeeded")
			case !errors.Is(err, account.ErrReset):
				t.Error(err)
			}
		}
		if won < 0 {
			t.Fatal("no reset succeeded")
		}
		f.wantPassword(t, chosen(won))
	})
}

// Without the gate, the password is reset, and the login tokens end later.
func TestResetWithoutTheGate(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		if _, err := f.Login(t.Context(), "ada@example.com", password); err != nil {
			t.Fatal(err)
		}
		token := f.link(t)
		f.gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
		if _, err := f.ResetPassword(t.Context(), token, other); !errors.Is(err, account.ErrLoginsLive) {
			t.Errorf("got %v, want ErrLoginsLive", err)
		}
		f.wantDead(t, "spent", token)
		f.gate.Fail(nil)
		f.wantPassword(t, other)
		if err := f.EndLogins(t.Context()); err != nil || f.logins(t, f.ada.ID) != 0 {
			t.Errorf("%v; a login token of the old password works", err)
		}
	})
}

// A database that leaks has no link that works.
func TestResetTokenIsNotStored(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		token := f.link(t)
		if _, err := f.store.ByReset(t.Context(), token, now); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("the token itself is stored: %v", err)
		}
	})
}

func TestPruneResets(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		ctx := t.Context()
		grace := f.add(t, "grace@example.com", "starter")
		expires := now.Add(time.Minute)
		if err := errors.Join(f.store.SetReset(ctx, f.ada.ID, "expired", now), f.store.SetReset(ctx, grace.ID, "live", expires)); err != nil {
			t.Fatal(err)
		}
		if err := f.store.Prune(ctx, now); err != nil {
			t.Fatal(err)
		}
		long := now.Add(-time.Hour) // both would be live
		if _, err := f.store.ByReset(ctx, "expired", long); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("the expired link is there: %v", err)
		}
		if _, err := f.store.ByReset(ctx, "live", long); err != nil {
			t.Errorf("the live link: %v", err)
		}
	})
}

// The background work deletes what has ended.
func TestPruneInTheBackground(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		idle := account.Session{ID: "idle", AccountID: f.ada.ID, CreatedAt: now, SeenAt: now.Add(-account.SessionIdle), ExpiresAt: now.Add(time.Hour)}
		if err := errors.Join(f.store.SetReset(t.Context(), f.ada.ID, "expired", now), f.store.AddSession(t.Context(), idle)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		var running sync.WaitGroup
		running.Go(func() { f.Prune(ctx, time.Millisecond) })
		for ctx.Err() == nil {
			_, session := f.store.Session(ctx, "idle")
			_, reset := f.store.ByReset(ctx, "expired", now.Add(-time.Hour))
			if errors.Is(session, account.ErrNotFound) && errors.Is(reset, account.ErrNotFound) {
				break
			}
		}
		if ctx.Err() != nil {
			t.Error("the session or the link is still there")
		}
		stop()
		running.Wait()
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *forgetful) {
		ctx := t.Context()
		if err := f.Close(ctx, f.ada.ID, other); !errors.Is(err, account.ErrCredentials) {
			t.Errorf("a wrong password: got %v, want ErrCredentials", err)
		}
		f.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodDelete, f.ada.ID)})
		if err := f.Close(ctx, f.ada.ID, password); !errors.Is(err, account.ErrGate) {
			t.Errorf("without the gate: got %v, want ErrGate", err)
		}
		f.wantPassword(t, password)
		session := account.Session{ID: "browser", AccountID: f.ada.ID, Version: 1, CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(time.Hour)}
		if err := f.store.AddSession(ctx, session); err != nil {
			t.Fatal(err)
		}
		// The gate keeps counts of a closed account: it must get no label.
		f.gate.Fail(&gatetest.Fault{Hits: func(r *http.Request) bool { return r.Method != http.MethodDelete }})
		if err := f.Close(ctx, f.ada.ID, password); err != nil {
			t.Fatal(err)
		}
		f.gate.Fail(nil)
		if _, err := f.store.Session(ctx, "browser"); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("the session is there: %v", err)
		}
		if _, err := f.Identify(ctx, f.ada.ID); !errors.Is(err, account.ErrNotFound) || len(f.atGate(t)) != 0 {
			t.Errorf("the account is still known: %v, the gate has %v", err, f.atGate(t))
		}
		if err := f.Close(ctx, f.ada.ID, password); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("closed twice: got %v, want ErrNotFound", err)
		}
	})
}
