package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
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

// Items returns the items of a store.
func Items(t *testing.T, s store.Exporter) (items []store.Item) {
	t.Helper()
	err := s.Export(t.Context(), func(item store.Item) error {
		items = append(items, item)
		return nil
	})
	if err != nil {
		t.Fatalf("exporting: %v", err)
	}
	return items
}

// Texts returns items as sorted texts, to compare them.
func Texts(t *testing.T, items []store.Item) (texts []string) {
	t.Helper()
	for _, item := range items {
		text, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return texts
}

func sequence(items []store.Item) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// Fill puts something of everything into a store.
func Fill(t *testing.T, opened store.Store) {
	s := newSuite(t, opened)
	_, err := PutAccount(s.Context(), opened, store.Account{
		ID: "acc_1", Plan: "starter", Label: "ada@example.com", CreatedAt: s.now, Overrides: []store.Override{
			{Limit: store.Limit{Endpoint: store.All, Period: store.Month, Max: store.Unlimited}, Reason: "trial", CreatedAt: s.now, ExpiresAt: s.now.Add(time.Hour)},
		},
	})
	s.must(err)
	_, err = PutAccount(s.Context(), opened, store.Account{ID: "acc_2", Plan: "business", Disabled: true, CreatedAt: s.now})
	s.must(err)
	limited := s.newKey("acc_1", "limited")
	limited.Limits = []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 9}}
	limited.Addresses = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	s.create(limited)
	s.must(s.replace(limited.ID, s.successor(limited, "key_next"), s.now.Add(time.Hour)))
	revoked, login := s.newKey("acc_1", "revoked"), s.newKey("acc_1", "login")
	login.Kind, login.ExpiresAt = token.Login, s.now.Add(time.Hour)
	s.create(revoked)
	s.create(login)
	s.must(opened.RevokeKey(s.Context(), "acc_1", revoked.ID, s.now))
	for n := range 40 {
		call := s.call("acc_1", []string{"convert", "rates"}[n%2])
		call.Day -= dayShift(int32(n / 2))
		call.Cost = int64(n + 1)
		if n%4 == 0 {
			call.Key = limited.ID
		}
		s.takeList(call, nil, true)
		opened.Record(s.record("acc_1", n))
	}
	s.must(opened.AddRefused(s.Context(), []store.Refused{{Day: s.today, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 3}}))
	s.must(opened.AddEntries(s.Context(), []store.Entry{
		{At: s.now, ActorKind: "admin", Action: "account.create", Account: "acc_1", After: json.RawMessage(`{"plan":"starter"}`)},
		{At: s.now, ActorKind: "person", ActorID: "acc_1", Action: "key.create", Account: "acc_1", Target: limited.ID},
	}))
	silent := s.event(2)
	silent.Queued = false
	s.add(s.event(1), true)
	s.add(silent, true)
}

// testSame: a restored store has the same state, and goes on with it.
func testSame(t *testing.T, from, to Place) {
	opened := from.Open(t)
	Fill(t, opened)
	items := Items(t, opened)
	if err := to.Restore(sequence(items)); err != nil {
		t.Fatalf("restoring: %v", err)
	}
	restored := to.Open(t)
	if got, want := Texts(t, Items(t, restored)), Texts(t, items); !slices.Equal(got, want) {
		t.Errorf("the restored store differs:\n got %q\nwant %q", got, want)
	}
	s := newSuite(t, restored)
	next := s.newKey("acc_1", "limited")
	next.ID, next.Limits, next.Addresses, next.Root = "key_next", []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 9}},
		[]netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, "key_acc_1_limited"
	s.wantNoGrant("a revoked key", hashOf("key_acc_1_revoked"), s.now)
	if grant, err := restored.Grant(t.Context(), hashOf("key_next"), s.now); err != nil || grant.Plan != "starter" || grant.Restriction == nil || grant.Restriction.CountsAs != "key_acc_1_limited" {
		t.Errorf("grant of a restored key: %+v, %v", grant, err)
	}
	// 1 was used of the endpoint today, and the sums of the month continue.
	month := int64(0)
	first, _ := s.today.Month()
	counts, err := opened.Counts(t.Context(), "acc_1", "", first, s.today)
	s.must(err)
	for _, c := range counts {
		month += c.Used
	}
	call := s.call("acc_1", "convert")
	s.takeList(call, []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: 10}, {Endpoint: store.All, Period: store.Month, Max: month + 5},
	}, true, 8, 4)
	s.add(s.event(1), false)
	s.add(s.event(2), false)
	s.claim(s.now.Add(time.Hour), 10, 1)
	entries := []store.Entry{{At: s.now.Add(-time.Hour), ActorKind: "admin", Action: "account.delete", Account: "acc_2"}}
	s.must(restored.AddEntries(t.Context(), entries))
	if list, err := restored.ListEntries(t.Context(), "", time.Time{}, store.EntryID{}, 10); err != nil || len(list) != 3 || list[2].ID != entries[0].ID {
		t.Errorf("the audit log does not continue: %+v, %v", list, err)
	}
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
		items = Items(t, opened)
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
	if got := Texts(t, Items(t, to.Open(t))); !slices.Equal(got, Texts(t, items)) {
		t.Errorf("the restored store differs: %q", got)
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
