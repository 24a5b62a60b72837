package badgerstore

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// TestDaysEnd: eachDay ends after the greatest key, day -1, and does not wrap.
func TestDaysEnd(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	want := []calendar.Day{0, 7, -1}
	for _, day := range want {
		key := appendCountKey(nil, day, "acc_1", "convert")
		if err := s.archive.write(change{key: key, value: []byte{1}}); err != nil {
			t.Fatal(err)
		}
	}
	var got []calendar.Day
	err := s.eachDay(func(day calendar.Day) error {
		if got = append(got, day); len(got) > len(want) {
			return errors.New("it wraps")
		}
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got days %v, %v, want %v", got, err, want)
	}
}

// TestResetInProgress: Counts returns the old count until a reset is written, so
// that a second reset includes it. The first may fail.
func TestResetInProgress(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	take(t, s, call("convert", today))
	add, errLost, asked := s.journal.append, errors.New("pages lost"), false
	s.journal.append = func(record []byte, durable bool) error {
		if asked {
			return add(record, durable)
		}
		asked = true
		counts, err := s.Counts(t.Context(), "acc_1", "", today, today)
		if err != nil || len(counts) != 1 || counts[0].Used != 1 {
			t.Errorf("under way: got %v, %v, want the call", counts, err)
		}
		return errLost
	}
	if err := s.ResetCounts(t.Context(), "acc_1", "convert", today); !errors.Is(err, errLost) {
		t.Errorf("got %v, want %v", err, errLost)
	}
	wantUsed(t, s, call("convert", today), 1)
	if err := s.ResetCounts(t.Context(), "acc_1", "", today); err != nil {
		t.Errorf("again: %v", err)
	}
	wantUsed(t, s, call("convert", today), 0)
}

// TestDeletionSyncsOnce: all counts of an account are deleted with one write.
// Other accounts wait for it.
func TestDeletionSyncsOnce(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: "acc_1", Plan: "starter"}); err != nil {
		t.Fatalf("creating the account: %v", err)
	}
	var rows []change
	for back := range calendar.Day(30) {
		for _, endpoint := range []string{"convert", "rates", "history"} {
			rows = append(rows, countRow(appendCountKey(nil, today-back, "acc_1", endpoint), 7))
		}
	}
	if err := s.archive.writeDurably(nil, rows...); err != nil {
		t.Fatalf("writing counts: %v", err)
	}
	syncs, _ := countSyncs(s)
	if err := s.DeleteAccount(t.Context(), "acc_1"); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	if *syncs > 3 {
		t.Errorf("deleting %d counts took %d syncs of the archive", len(rows), *syncs)
	}
	if counts, err := s.Counts(t.Context(), "acc_1", "", today-30, today); err != nil || len(counts) != 0 {
		t.Errorf("%d counts are left, %v", len(counts), err)
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
		if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: id, Plan: "starter"}); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateKey(t.Context(), store.Key{ID: "key_" + id, Account: id, Name: "ci"}, token.Hash{byte(len(id))}); err != nil {
			t.Fatal(err)
		}
		take(t, s, store.Call{Account: id, Key: "key_" + id, Endpoint: "convert", Day: today})
		err := s.archive.writeDurably(nil,
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

// TestRepeatedAfterFailedSync: a change whose sync failed fails again when it is
// repeated.
func TestRepeatedAfterFailedSync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHere(t, dir, Options{})
	for _, id := range []string{"acc_1", "acc_2"} {
		if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: id, Plan: "starter"}); err != nil {
			t.Fatalf("creating an account: %v", err)
		}
	}
	take(t, s, call("convert", today))
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
	for name, change := range map[string]func(*Store) error{
		"a reset of a day that is not in memory": func(s *Store) error { return s.ResetCounts(t.Context(), "acc_1", "", today) },
		"a deletion":                             func(s *Store) error { return s.DeleteAccount(t.Context(), "acc_2") },
	} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatalf("copying: %v", err)
		}
		s := openHere(t, copied, Options{})
		errLost, works := errors.New("pages lost"), s.archive.sync
		syncWith(s, func() error { return errLost })
		for try := range 2 {
			if err := change(s); !errors.Is(err, errLost) || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s, try %d: got %v, want %v", name, try+1, err, errLost)
			}
		}
		if list, err := s.ListAccounts(t.Context(), "", 10); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: then the accounts are %v, %v", name, list, err)
		}
		syncWith(s, works) // to close it
	}
}

// TestCountedWhileADayIsDropped: the counters of all keys are found, also if
// the day is dropped from memory meanwhile.
func TestCountedWhileADayIsDropped(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	last := keyRow{Key: store.Key{ID: "key_last"}}
	keys := append(make([]keyRow, 1000), last)
	for i := range keys[:1000] {
		keys[i].ID = "key_other"
	}
	ofKey := call("convert", today)
	ofKey.Key = last.ID
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
		if err != nil || !slices.ContainsFunc(calls, func(c store.Call) bool { return c.Key == last.ID }) {
			t.Errorf("got %v, %v, want a call of %s", calls, err, last.ID)
			break
		}
	}
	stop()
	done.Wait()
}
