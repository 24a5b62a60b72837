package badgerstore

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// called is what acc_1 called on a day in memory and on an archived day, by
// endpoint, all of it with key_1.
var called = map[store.Count]int64{
	{Day: today, Endpoint: "convert"}: 5, {Day: today, Endpoint: "rates"}: 3,
	{Day: today - 9, Endpoint: "convert"}: 7, {Day: today - 9, Endpoint: "rates"}: 2,
}

// totals is what is credited of each day.
var totals = map[string]int64{"convert": 2, "rates": 9}

// renewals credits calls of acc_1, closes it and creates another one with its id.
// All of it can be repeated.
func renewals(t *testing.T, s TestStore) error {
	a, err := s.Get(t.Context(), "acc_1")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil && a.Plan == "starter" {
		for _, day := range []calendar.Day{today, today - 9} {
			for endpoint, total := range totals {
				if err := s.Credit(t.Context(), "acc_1", []string{"key_1"}, day, endpoint, total); err != nil {
					return err
				}
			}
		}
		if err := s.DeleteAccount(t.Context(), "acc_1"); err != nil {
			return err
		}
	}
	_, err = storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "pro"})
	return err
}

// wantCalled checks that all calls are there once, as used or credited, and of the
// account with the id or of a closed one. A new account has used nothing.
func wantCalled(t *testing.T, what string, s TestStore, renewed bool) {
	t.Helper()
	counts, err := s.CountsOfAccounts(t.Context(), []string{"acc_1"}, today-9, today)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Get(t.Context(), "acc_1")
	isNew := err == nil && a.Plan == "pro"
	sum := map[store.Count]int64{}
	for _, c := range counts {
		sum[store.Count{Day: c.Day, Endpoint: c.Endpoint}] += c.Used
		if isNew && (c.Key == "" || c.Key == store.Credited) {
			t.Errorf("%s: the new account has %+v", what, c)
		}
		if credit := min(totals[c.Endpoint], called[store.Count{Day: c.Day, Endpoint: c.Endpoint}]); c.Used != credit &&
			(c.Key == store.ClosedCredited || c.Key == store.Credited) {
			t.Errorf("%s: got %+v, want a credit of %d", what, c, credit)
		}
	}
	if !maps.Equal(sum, called) || isNew != renewed && renewed {
		t.Errorf("%s: got %v, new account %v, want %v", what, counts, isNew, called)
	}
	credits := 0
	for _, c := range counts {
		if c.Key == store.ClosedCredited {
			credits++
		}
	}
	if renewed && credits != len(called) {
		t.Errorf("%s: got %v, want %d credits of the closed account", what, counts, len(called))
	}
	if left, err := s.Counts(t.Context(), "acc_1", "key_1", today-9, today); isNew && (err != nil || len(left) > 0) {
		t.Errorf("%s: left of its key are %v, %v", what, left, err)
	}
}

// TestCreditAndMoveWhereAWriteFails: accounts are credited, closed and created
// again, and one write of the log or sync of the archive fails, before or after it
// has happened. The numbers are right then, after the process ends, and after all
// is repeated.
func TestCreditAndMoveWhereAWriteFails(t *testing.T) {
	t.Parallel()
	for _, happens := range []bool{false, true} {
		for failing, more := int64(1), true; more; failing++ {
			t.Run(fmt.Sprintf("write %d, happens %v", failing, happens), func(t *testing.T) {
				more = creditWithFault(t, failing, happens)
			})
		}
	}
}

// creditWithFault makes renewals while a write fails, and tells whether there are
// so many.
func creditWithFault(t *testing.T, failing int64, happens bool) bool {
	dir, crashed := t.TempDir(), t.TempDir()
	s := openWithCalls(t, dir)
	var writes atomic.Int64 // the background writes, too
	fault := func(do func() error) error {
		if writes.Add(1) != failing {
			return do()
		}
		if happens {
			return errors.Join(do(), errDisk)
		}
		return errDisk
	}
	write, syncs := s.journal.append, s.archive.sync
	appendWith(s, func(record []byte) error {
		return fault(func() error { return write(record) })
	})
	syncWith(s, func() error { return fault(syncs) })
	err := renewals(t, s)
	appendWith(s, write)
	syncWith(s, syncs)
	if writes.Load() < failing {
		if err != nil {
			t.Errorf("without a fault: %v", err)
		}
		wantCalled(t, "without a fault", s, true)
		return false
	}
	if err != nil && !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	again := openHere(t, crashed, Options{})
	wantCalled(t, "after the crash", again, false)
	if err := renewals(t, again); err != nil {
		t.Errorf("again: %v", err)
	}
	wantCalled(t, "in the end", again, true)
	return true
}

// openWithCalls opens a store with acc_1, whose calls are those of called.
func openWithCalls(t *testing.T, dir string) TestStore {
	t.Helper()
	s := openHere(t, dir, Options{})
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter"}); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateKey(t.Context(), store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key, Name: "ci"}, token.Hash{1}); err != nil {
		t.Fatal(err)
	}
	for c, used := range called {
		if c.Day == today {
			take(t, s, store.Call{Account: "acc_1", Key: "key_1", Endpoint: c.Endpoint, Day: today, Cost: used})
			continue
		}
		for _, key := range []string{"", "key_1"} {
			if err := writeDurably(s, countRow(appendCountKey(nil, c.Day, ledger.Holder("acc_1", key), c.Endpoint), uint64(used))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// TestEditIsOneTransaction: the rows that an edit of a day that is not in memory
// changes are joined, and no others are written.
func TestEditIsOneTransaction(t *testing.T) {
	t.Parallel()
	s := openWithCalls(t, t.TempDir())
	e := ledger.Edit{Endpoint: "convert", Day: today - 9, Holders: []string{"acc_1", "acc_other", "acc_1\x01key_1", "acc_1\x01~closed"}, Change: func(used []int64) {
		used[0], used[2], used[3] = 0, used[2]+1, used[0]
	}}
	err := s.archive.view(func(txn *badger.Txn) error {
		rows, err := editTxn(txn, &e)
		for i, row := range rows {
			if row.joined != (i > 0) {
				t.Errorf("row %q: joined %v", row.key, row.joined)
			}
		}
		if len(rows) != 3 || rows[0].value != nil || rows[1].value[0] != 8 || rows[2].value[0] != 7 {
			t.Errorf("got %v", rows)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCountsDuringCredits: what is used and what is credited are of one instant,
// so that no reader finds calls that do not exist, in memory and in the archive.
func TestCountsDuringCredits(t *testing.T) {
	t.Parallel()
	s := openWithCalls(t, t.TempDir())
	take(t, s, store.Call{Account: "acc_1", Endpoint: "convert", Day: today, Cost: 1000})
	if err := writeDurably(s, countRow(appendCountKey(nil, today-9, "acc_1", "convert"), 1005)); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	var stop atomic.Bool
	for _, day := range []calendar.Day{today, today - 9} {
		done.Go(func() {
			defer stop.Store(true)
			for total := range int64(200) {
				if err := s.Credit(t.Context(), "acc_1", nil, day, "convert", total); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for !stop.Load() {
		counts, err := s.CountsOfAccounts(t.Context(), []string{"acc_1"}, today-9, today)
		sums := map[calendar.Day]int64{}
		for _, c := range counts {
			if c.Endpoint == "convert" {
				sums[c.Day] += c.Used
			}
		}
		if want := map[calendar.Day]int64{today: 1005, today - 9: 1005}; err != nil || !maps.Equal(sums, want) {
			t.Errorf("got %v, %v, want %v", sums, err, want)
			break
		}
	}
	done.Wait()
}
