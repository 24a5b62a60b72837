package database_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
)

// Threat: a link is spent twice, by two processes or after a restart.
func TestSpendLink(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		stores := []*database.Store{open(), open()}
		expires := created.Add(5 * time.Minute)
		var spent atomic.Int32
		var visits sync.WaitGroup
		for i := range 20 {
			visits.Go(func() {
				err := stores[i%2].SpendLink(t.Context(), "a", expires)
				if err == nil {
					spent.Add(1)
				} else if !errors.Is(err, database.ErrSpent) {
					t.Error(err)
				}
			})
		}
		visits.Wait()
		if spent.Load() != 1 {
			t.Errorf("the link was spent %d times, want once", spent.Load())
		}
		store := open()
		for _, step := range []struct {
			now    time.Time
			pruned bool
		}{{expires.Add(time.Hour - time.Millisecond), false}, {expires.Add(time.Hour), true}} {
			if err := store.Prune(t.Context(), step.now); err != nil {
				t.Fatal(err)
			}
			if err := store.SpendLink(t.Context(), "a", expires); errors.Is(err, database.ErrSpent) == step.pruned {
				t.Errorf("at %v: got %v; want the link to be forgotten is %v", step.now, err, step.pruned)
			}
		}
	})
}

// A portal session can be of an account without a row. Each other session needs
// one, and all sessions of an account with a row end with it.
func TestPortalSessions(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		store := withSessions(t, open)
		ctx := t.Context()
		of := func(id, accountID string, portal bool) account.Session {
			s := adasSession(id)
			s.AccountID, s.Portal = accountID, portal
			return s
		}
		for _, s := range []account.Session{of("p", "acc_ada", true), of("x", "shop-7", true)} {
			if err := store.AddSession(ctx, s); err != nil {
				t.Fatal(err)
			}
			if got, err := store.Session(ctx, s.ID); err != nil || got != s {
				t.Errorf("got %+v, %v; want %+v", got, err, s)
			}
		}
		if err := store.AddSession(ctx, of("y", "shop-7", false)); err == nil {
			t.Error("a session of no row is stored")
		}
		if got := ids(t, store); !slices.Equal(got, []string{"a", "b", "c", "p"}) {
			t.Errorf("got %v, want a, b, c and p", got)
		}
		if err := store.Remove(ctx, "acc_ada"); err != nil || len(ids(t, store)) != 0 {
			t.Errorf("%v; the sessions of a deleted account are there", err)
		}
		if _, err := store.Session(ctx, "x"); err != nil {
			t.Errorf("the session of another account: %v", err)
		}
	})
}
