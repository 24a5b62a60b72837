package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Place is where a store is kept.
type Place interface {
	// Open opens the store. It is closed at the end of the test.
	Open(t *testing.T) store.Store
	// Close closes the open store.
	Close(t *testing.T)
	// Restore restores the store.
	Restore(items iter.Seq2[store.Item, error]) error
}

// RunRestore tests that a store can be restored from its export. Each call of
// place returns an empty one.
func RunRestore(t *testing.T, place func(t *testing.T) Place) {
	t.Run("Same", func(t *testing.T) { t.Parallel(); testSame(t, place(t), place(t)) })
	t.Run("UnderLoad", func(t *testing.T) { t.Parallel(); testUnderLoad(t, place(t), place(t)) })
	t.Run("NotEmpty", func(t *testing.T) { t.Parallel(); testNotEmpty(t, place(t)) })
	t.Run("InUse", func(t *testing.T) { t.Parallel(); testInUse(t, place(t)) })
	t.Run("Unfinished", func(t *testing.T) { t.Parallel(); testUnfinished(t, place(t)) })
}

// sequence returns items one after the other.
func sequence(items []store.Item) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// testSame: a restored store has the same state, and goes on with it.
func testSame(t *testing.T, from, to Place) {
	opened := from.Open(t)
	Fill(t, opened)
	want := Export(t, opened)
	if err := to.Restore(sequence(exportItems(t, opened))); err != nil {
		t.Fatalf("restoring: %v", err)
	}
	restored := to.Open(t)
	if got := Export(t, restored); !slices.Equal(got, want) {
		t.Errorf("the restored store differs:\n got %q\nwant %q", got, want)
	}
	s := newSuite(t, restored)
	s.wantNoGrant("a revoked key", hashOf("key_acc_1_revoked"), s.now)
	s.wantNoGrant("a key of a disabled account", hashOf("key_next"), s.now)
	grant, err := restored.Grant(t.Context(), hashOf("key_acc_1_limited"), s.now)
	if err != nil || grant.Plan != "starter" || grant.Restriction == nil || len(grant.Restriction.Addresses) != 2 {
		t.Errorf("grant of a restored key: %+v, %v", grant, err)
	}
	// The account has used 4 today, and its key 3 of them.
	call := costing(s.call("acc_1", "convert"), 1)
	call.Key = grant.Restriction.CountsAs
	s.takeList(call, []store.Limit{daily(10), all(monthly(100)), ofKey(daily(5))}, true, 5, 100-s.ofMonth(opened)-1, 1)
	s.addEvent(s.event("evt_queued", 0), false)
	s.addEvent(s.event("evt_done", 0), false)
	entry := s.entry("acc_1", -60)
	entries := []store.Entry{entry}
	s.must(restored.AddEntries(t.Context(), entries))
	if list, err := restored.ListEntries(t.Context(), "", time.Time{}, store.EntryID{}, 10); err != nil || len(list) != 4 || list[3].ID != entries[0].ID {
		t.Errorf("the audit log does not continue: %+v, %v", list, err)
	}
}

// ofMonth returns what acc_1 has used in the month of today.
func (s *suite) ofMonth(from store.Store) (sum int64) {
	first, last := s.today.Month()
	counts, err := from.Counts(s.Context(), "acc_1", "", first, last)
	s.must(err)
	for _, c := range counts {
		sum += c.Used
	}
	return sum
}

// testUnderLoad: a call that was admitted before the export is in it.
func testUnderLoad(t *testing.T, from, to Place) {
	opened := from.Open(t)
	s := newSuite(t, opened)
	s.account("acc_1")
	var admitted atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if ok, err := opened.Take(context.Background(), s.call("acc_1", "convert"), nil, nil); err != nil || !ok {
					t.Errorf("a call during the export: %t, %v", ok, err)
					return
				}
				admitted.Add(1)
			}
		})
	}
	for admitted.Load() < 500 {
		time.Sleep(time.Millisecond)
	}
	var items []store.Item
	for range 3 {
		before := admitted.Load()
		items = exportItems(t, opened)
		i := slices.IndexFunc(items, func(item store.Item) bool { return item.Count != nil })
		if i < 0 || items[i].Count.Used < before {
			t.Errorf("the export has %+v, but %d calls were admitted before it", items, before)
		}
	}
	close(stop)
	group.Wait()
	if err := to.Restore(sequence(items)); err != nil {
		t.Fatalf("restoring: %v", err)
	}
	if got := exportItems(t, to.Open(t)); len(got) != len(items) || describe(got[1]) != describe(items[1]) {
		t.Errorf("the restored store has %+v, want %+v", got, items)
	}
}

func testNotEmpty(t *testing.T, place Place) {
	for name, fill := range map[string]func(*suite){
		"account": func(s *suite) { s.account("acc_1") },
		"audit": func(s *suite) {
			s.must(s.store.AddEntries(s.Context(), []store.Entry{{At: s.now, ActorKind: "admin", Action: "account.delete"}}))
		},
	} {
		s := newSuite(t, place.Open(t))
		fill(s)
		place.Close(t)
		if err := place.Restore(sequence(nil)); !errors.Is(err, store.ErrNotEmpty) {
			t.Errorf("into a store with %s: got %v, want %v", name, err, store.ErrNotEmpty)
		}
		if name == "account" {
			s = newSuite(t, place.Open(t))
			if _, err := s.store.Account(t.Context(), "acc_1"); err != nil {
				t.Errorf("a refused restore changed the store: %v", err)
			}
			s.must(s.store.DeleteAccount(t.Context(), "acc_1"))
			place.Close(t)
		}
	}
}

func testInUse(t *testing.T, place Place) {
	place.Open(t)
	if err := place.Restore(sequence(nil)); !errors.Is(err, store.ErrInUse) {
		t.Errorf("got %v, want %v", err, store.ErrInUse)
	}
}

// testUnfinished: a store whose restore failed does not look like a whole one.
func testUnfinished(t *testing.T, place Place) {
	errDamaged := errors.New("damaged")
	err := place.Restore(func(yield func(store.Item, error) bool) {
		for n := range 10 {
			if !yield(store.Item{Account: &store.Account{ID: fmt.Sprintf("acc_%d", n), Plan: "free"}}, nil) {
				return
			}
		}
		yield(store.Item{}, errDamaged)
	})
	if !errors.Is(err, errDamaged) {
		t.Fatalf("got %v, want the error of the items", err)
	}
	if err := place.Restore(sequence(nil)); err == nil {
		t.Error("a restore into an unfinished one succeeded")
	}
}
