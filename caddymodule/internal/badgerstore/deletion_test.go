package badgerstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// TestDaysEnd: days ends after the greatest key, day -1, and does not wrap.
func TestDaysEnd(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	want := []calendar.Day{-1, 0, 7}
	for _, day := range want {
		key := appendCountKey(nil, day, "acc_1", "convert")
		if err := s.archive.write(change{key: key, value: []byte{1}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.days(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got days %v, %v, want %v", got, err, want)
	}
}

// TestDeletionOfKeyCounts: a deletion that fails can be repeated, and then no
// counter of a key is left: none of a day in memory, none of an archived day,
// and none of a key that is no longer stored.
func TestDeletionOfKeyCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHere(t, dir, Options{})
	ids := []string{"acc_1", "acc_10"}
	for _, id := range ids {
		if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: id, Plan: "starter"}); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateKey(t.Context(), store.Key{ID: "key_" + id, Account: id, Kind: token.Key, Name: "ci"}, token.Hash{byte(len(id))}); err != nil {
			t.Fatal(err)
		}
		take(t, s, store.Call{Account: id, Key: "key_" + id, Endpoint: "convert", Day: today})
		err := writeDurably(s,
			countRow(appendCountKey(nil, today-9, id, "convert"), 7),
			countRow(appendCountKey(nil, today-9, ledger.Holder(id, "key_"+id), "convert"), 7),
			countRow(appendCountKey(nil, today-9, ledger.Holder(id, "key_gone"), "convert"), 7))
		if err != nil {
			t.Fatal(err)
		}
	}
	add, errLost := s.journal.append, errors.New("pages lost")
	s.journal.append = func([]byte, bool) error { return errLost }
	if err := s.DeleteAccount(t.Context(), "acc_1"); !errors.Is(err, errLost) {
		t.Errorf("got %v, want %v", err, errLost)
	}
	s.journal.append = add
	if grant, err := s.Grant(t.Context(), token.Hash{byte(len("acc_1"))}, time.Now()); err != nil || grant.Key != "key_acc_1" {
		t.Errorf("after the failed deletion the key grants %+v, %v", grant, err)
	}
	if err := s.DeleteAccount(t.Context(), "acc_1"); err != nil {
		t.Fatalf("again: %v", err)
	}
	for range 2 {
		for _, id := range ids {
			for _, key := range []string{"", "key_" + id, "key_gone"} {
				got, err := s.Counts(t.Context(), id, key, today-30, today)
				if err != nil || (len(got) > 0) != (id == "acc_10") {
					t.Errorf("counts of %s and key %q: got %v, %v", id, key, got, err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openHere(t, dir, Options{})
	}
}

// TestFailedSyncIsFinal: after a failed sync a later one proves nothing, because
// the kernel may have dropped pages. A change fails also when it is repeated, and
// no call is admitted.
func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(TestStore) error{
		"a reset of a day that is not in memory": func(s TestStore) error { return s.ResetCounts(t.Context(), "acc_1", nil, "", today) },
		"a deletion":                             func(s TestStore) error { return s.DeleteAccount(t.Context(), "acc_1") },
		"a revocation":                           func(s TestStore) error { return s.RevokeKey(t.Context(), "acc_1", "key_1", time.Now()) },
	} {
		s := openHere(t, t.TempDir(), Options{})
		if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter"}); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateKey(t.Context(), store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key}, token.Hash{1}); err != nil {
			t.Fatal(err)
		}
		if err := writeDurably(s, countRow(appendCountKey(nil, today, "acc_1", "convert"), 7)); err != nil {
			t.Fatal(err)
		}
		errLost, works := errors.New("pages lost"), s.archive.sync
		syncWith(s, func() error { return errLost })
		for try := range 2 {
			if err := change(s); !errors.Is(err, errLost) || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s, try %d: got %v, want %v", name, try+1, err, errLost)
			}
			s.archive.mu.Lock()
			s.archive.sync = works // it works again, or so it says
			s.archive.mu.Unlock()
		}
		if list, err := s.ListAccounts(t.Context(), "", 10); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: then the accounts are %v, %v", name, list, err)
		}
		if _, err := s.ledger.Take(call("rates", today-1), nil, nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: then a call gets %v", name, err)
		}
		syncWith(s, works) // to close it
	}
}

// TestCountedWhileADayIsDropped: the counters of all keys are found, also if
// the day is dropped from memory meanwhile.
func TestCountedWhileADayIsDropped(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	const last = "key_last"
	keys := append(slices.Repeat([]string{"key_other"}, 1000), last)
	ofKey := call("convert", today)
	ofKey.Key = last
	take(t, s, ofKey)
	endSegment(t, s)
	var done sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	done.Go(func() {
		for ctx.Err() == nil {
			s.ledger.RetainDays(func(calendar.Day) bool { return false })
			if err := s.Rooms(ctx, ofKey, []store.Limit{{Endpoint: "convert", Period: store.Day}}, make([]store.Room, 1)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 500 {
		calls, err := s.counted("acc_1", keys, today)
		if err != nil || !slices.ContainsFunc(calls, func(c store.Call) bool { return c.Key == last }) {
			t.Errorf("got %v, %v, want a call of %s", calls, err, last)
			break
		}
	}
	stop()
	done.Wait()
}
