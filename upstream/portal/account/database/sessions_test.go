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

func adasSession(id string) account.Session {
	return account.Session{
		ID: id, AccountID: "acc_ada", Version: 1, Agent: "Mozilla/5.0 Ünï", CreatedAt: created,
		SeenAt: created, ExpiresAt: created.Add(time.Hour),
	}
}

// withSessions is a store in which ada has the sessions a, b and c.
func withSessions(t *testing.T, open func() *database.Store) *database.Store {
	t.Helper()
	store := open()
	mustAdd(t, store, ada())
	for _, id := range []string{"a", "b", "c"} {
		if err := store.AddSession(t.Context(), adasSession(id)); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// ids returns which of ada's sessions there are.
func ids(t *testing.T, store *database.Store) []string {
	t.Helper()
	all, err := store.Sessions(t.Context(), "acc_ada")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestSessions(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		store := withSessions(t, open)
		ctx := t.Context()
		if got, err := store.Session(ctx, "a"); err != nil || got != adasSession("a") {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := store.Session(ctx, "A"); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("unknown: got %v", err)
		}
		if err := store.AddSession(ctx, adasSession("a")); err == nil {
			t.Error("an id was taken twice")
		}
		seen := created.Add(5 * time.Minute)
		if err := errors.Join(store.TouchSession(ctx, "b", seen), store.TouchSession(ctx, "gone", seen)); err != nil {
			t.Error(err)
		}
		if got := ids(t, store); !slices.Equal(got, []string{"b", "a", "c"}) {
			t.Errorf("got %v, want b first, which was seen last", got)
		}
		if got, err := store.Session(ctx, "b"); err != nil || !got.SeenAt.Equal(seen) {
			t.Errorf("got %+v, %v; want it seen at %v", got, err, seen)
		}
		if err := errors.Join(store.RemoveSession(ctx, "b"), store.RemoveSession(ctx, "b")); err != nil {
			t.Error(err)
		}
		if got := ids(t, store); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("got %v, want a and c", got)
		}
		if err := store.RemoveOtherSessions(ctx, "acc_ada", "c"); err != nil {
			t.Error(err)
		}
		if got := ids(t, store); !slices.Equal(got, []string{"c"}) {
			t.Errorf("got %v, want c", got)
		}
		if err := store.Remove(ctx, "acc_ada"); err != nil || len(ids(t, store)) != 0 {
			t.Errorf("%v; the sessions of a deleted account are there", err)
		}
	})
}

// Prune deletes sessions that are idle or have expired.
func TestPruneSessions(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		store := withSessions(t, open)
		if err := store.TouchSession(t.Context(), "b", created.Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		long := adasSession("long")
		long.SeenAt, long.ExpiresAt = created.Add(time.Hour), created.Add(30*24*time.Hour)
		if err := store.AddSession(t.Context(), long); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			now  time.Time
			want []string
		}{
			{created.Add(time.Hour - time.Millisecond), []string{"long", "b", "a", "c"}},
			{created.Add(time.Hour), []string{"long"}}, // the others have expired
			{created.Add(time.Hour + account.SessionIdle - time.Millisecond), []string{"long"}},
			{created.Add(time.Hour + account.SessionIdle), []string{}}, // idle
		} {
			if err := store.Prune(t.Context(), step.now); err != nil {
				t.Fatal(err)
			}
			if got := ids(t, store); !slices.Equal(got, step.want) {
				t.Errorf("at %v: got %v, want %v", step.now, got, step.want)
			}
		}
	})
}

// Threat: guesses in parallel that are counted as one.
func TestTryPassword(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, open func() *database.Store) {
		store := withSessions(t, open)
		var tries sync.WaitGroup
		counts := make([]int, 20)
		for i := range counts {
			tries.Go(func() {
				var err error
				if counts[i], err = store.TryPassword(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			})
		}
		tries.Wait()
		slices.Sort(counts)
		for i, got := range counts {
			if got != i+1 {
				t.Fatalf("got %v, want 1 to 20", counts)
			}
		}
		if err := store.ForgetTries(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got, err := store.TryPassword(t.Context(), "a"); err != nil || got != 1 {
			t.Errorf("after they were forgotten: got %d, %v, want 1", got, err)
		}
		if _, err := store.TryPassword(t.Context(), "gone"); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("unknown: got %v", err)
		}
	})
}

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
