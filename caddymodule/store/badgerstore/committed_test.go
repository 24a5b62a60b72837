package badgerstore

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// TestCommitted: each call is in one commit that is reported.
func TestCommitted(t *testing.T) {
	t.Parallel()
	var commits, calls atomic.Int64
	with := openHere(t, t.TempDir(), Options{Committed: func(took time.Duration, n int) {
		if took <= 0 || n < 1 {
			t.Errorf("got a commit of %d calls in %v", n, took)
		}
		commits.Add(1)
		calls.Add(int64(n))
	}})
	for range 5 {
		take(t, with, call("convert", today))
	}
	if commits.Load() != 5 || calls.Load() != 5 {
		t.Errorf("got %d commits with %d calls, want 5 and 5", commits.Load(), calls.Load())
	}
}

// TestBatchSyncs: a batch of accounts is synced once.
func TestBatchSyncs(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	var syncs atomic.Int64
	works := s.archive.sync
	syncWith(s, func() error {
		syncs.Add(1)
		return works()
	})
	ids := make([]string, store.MaxBatch)
	for i := range ids {
		ids[i] = "acc_" + time.Duration(i).String()
	}
	before := s.archive.changes
	_, errs := s.ChangeAccounts(t.Context(), ids, func(_ int, a *store.Account, _ bool) error {
		a.Plan, a.Label = "starter", "Ada Lovelace"
		return nil
	})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The background can sync once a second, too.
	if got := s.archive.changes - before; got != 1 || syncs.Load() > 3 {
		t.Errorf("got %d transactions and %d syncs, want 1", got, syncs.Load())
	}
}

// TestCommittedAllocations: a call that is reported allocates nothing.
func TestCommittedAllocations(t *testing.T) {
	var calls int
	s := openHere(t, t.TempDir(), Options{Committed: func(_ time.Duration, n int) { calls += n }})
	reported := call("convert", today)
	take(t, s, reported)
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := s.ledger.Take(reported, nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("a call makes %v allocations", allocs)
	}
	if calls != 1002 {
		t.Errorf("%d calls were reported, want 1002", calls)
	}
}
