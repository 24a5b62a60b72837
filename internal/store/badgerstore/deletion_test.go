package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestDaysEnd: days ends after the greatest key, day -1, and does not wrap.
func TestDaysEnd(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	want := []calendar.Day{-1, 0, 7}
	for _, day := range want {
		key := appendCountKey(nil, day, "acc_1", "convert")
		if err := s.archive.write(soon, change{key: key, value: []byte{1}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.days(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got days %v, %v, want %v", got, err, want)
	}
}

// wantCounts checks how many counts accounts have under a key, on the two days of
// countedAccounts. A key that ends with an underscore has the id behind it.
func wantCounts(t *testing.T, s TestStore, key string, accounts map[string]int) {
	t.Helper()
	for id, want := range accounts {
		of := key
		if strings.HasSuffix(key, "_") {
			of += id
		}
		got, err := s.Counts(t.Context(), id, of, today-9, today)
		if err != nil || len(got) != want {
			t.Errorf("counts of %s and key %q: got %v, %v, want %d", id, of, got, err, want)
		}
	}
}

// countedAccounts returns a store with acc_1 and acc_10. Both have counts of a day
// in memory and of an archived day.
func countedAccounts(t *testing.T, dir string) TestStore {
	t.Helper()
	s := openHere(t, dir, Options{})
	for _, id := range []string{"acc_1", "acc_10"} {
		if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: id, Plan: "starter"}); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateKey(t.Context(), store.Key{ID: "key_" + id, Account: id, Kind: token.Key, Name: "ci"}, token.Hash{byte(len(id))}); err != nil {
			t.Fatal(err)
		}
		take(t, s, store.Call{Account: id, Key: "key_" + id, Endpoint: "convert", Day: today})
		err := writeDurably(s,
			countRow(appendCountKey(nil, today-9, id, "convert"), 7),
			countRow(appendCountKey(nil, today-9, ledger.Holder(id, "key_"+id), "convert"), 7))
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestDeletionOfKeyCounts: a deletion that fails keeps the counts, does not end
// calls that hold some, and can be repeated. Then no counter of a key is left: none
// of a day in memory, and none of an archived day. Those of the account stay.
func TestDeletionOfKeyCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := countedAccounts(t, dir)
	granted, err := s.GrantAccount(t.Context(), "acc_1", true)
	if err != nil {
		t.Fatal(err)
	}
	held := call("convert", today)
	held.Cost, held.Handle = 5, granted.Handle
	take(t, s, held)
	errFull, works := errors.New("little space is left"), s.archive.checkDisk
	checkDiskWith(s, func() error { return errFull })
	if err := s.DeleteAccount(t.Context(), "acc_1"); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
	checkDiskWith(s, works)
	if grant, err := s.Grant(t.Context(), token.Hash{byte(len("acc_1"))}, time.Now()); err != nil || grant.Key != "key_acc_1" {
		t.Errorf("after the failed deletion the key grants %+v, %v", grant, err)
	}
	wantCounts(t, s, "key_", map[string]int{"acc_1": 2, "acc_10": 2})
	take(t, s, held)
	for _, cost := range []int64{0, 7} {
		if err := s.Settle(t.Context(), held, nil, nil, cost, false); err != nil {
			t.Errorf("settling a call from before the failed deletion: %v", err)
		}
	}
	wantUsed(t, s, call("convert", today), 1+7)
	if err := s.DeleteAccount(t.Context(), "acc_1"); err != nil {
		t.Fatalf("again: %v", err)
	}
	for range 2 {
		wantCounts(t, s, "key_", map[string]int{"acc_1": 0, "acc_10": 2})
		wantCounts(t, s, "", map[string]int{"acc_1": 2, "acc_10": 2})
		if rows := s.rowsBelow(t, deletedKey("")); !slices.Equal(rows, []string{string(deletedKey("acc_1"))}) {
			t.Errorf("deleted are %q", rows)
		}
		if expiring := s.rowsForTest(t); !slices.ContainsFunc(expiring, func(key []byte) bool { return string(key) == string(deletedKey("acc_1")) }) {
			t.Errorf("only %q expire", expiring)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openHere(t, dir, Options{})
	}
}

func (s TestStore) rowsBelow(t *testing.T, prefix []byte) (keys []string) {
	t.Helper()
	err := s.archive.scan(prefix, func(key, _ []byte) error { keys = append(keys, string(key)); return nil })
	if err != nil {
		t.Error(err)
	}
	return keys
}

// TestDeletionWithoutKeyCounts: an account is deleted, and the process dies or the
// log fails before the counts of its keys are. They are deleted when the next
// account gets the id, and those of the account are then those of a closed one.
func TestDeletionWithoutKeyCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := countedAccounts(t, dir)
	add, errLost := s.journal.append, errors.New("pages lost")
	writes := 0
	appendWith(s, func(record []byte) error {
		if writes++; writes > 1 { // the account is deleted
			return errLost
		}
		return add(record)
	})
	if err := s.DeleteAccount(t.Context(), "acc_1"); err != nil {
		t.Error(err)
	}
	wantCounts(t, s, "key_", map[string]int{"acc_1": 2, "acc_10": 2})
	crashed := t.TempDir()
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	appendWith(s, add)
	for name, s := range map[string]TestStore{"the same process": s, "the next process": openHere(t, crashed, Options{})} {
		if _, err := s.Get(t.Context(), "acc_1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: got %v, want no account", name, err)
		}
		if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter"}); err != nil {
			t.Fatal(err)
		}
		wantCounts(t, s, "key_", map[string]int{"acc_1": 0, "acc_10": 2})
		wantCounts(t, s, "", map[string]int{"acc_1": 0, "acc_10": 2})
		wantCounts(t, s, store.Closed, map[string]int{"acc_1": 2, "acc_10": 0})
		wantUsed(t, s, call("convert", today), 0)
		if rows := s.rowsBelow(t, deletedKey("")); len(rows) > 0 {
			t.Errorf("%s: left are %q", name, rows)
		}
		take(t, s, call("convert", today))
		wantUsed(t, s, call("convert", today), 1)
	}
}

// TestSettleDuringCreation: a call of a deleted account that is settled after its
// counts have moved, and before the next account gets the id, does not count for
// that one.
func TestSettleDuringCreation(t *testing.T) {
	t.Parallel()
	s := countedAccounts(t, t.TempDir())
	grant, err := s.GrantAccount(t.Context(), "acc_1", true)
	if err != nil {
		t.Fatal(err)
	}
	late := call("convert", today)
	late.Key, late.Cost, late.Handle = "key_acc_1", 5, grant.Handle
	take(t, s, late)
	if err := s.DeleteAccount(t.Context(), "acc_1"); err != nil {
		t.Fatal(err)
	}
	if err := s.ledger.Use(func() error { return s.closeCounts("acc_1") }); err != nil {
		t.Fatal(err)
	}
	for _, cost := range []int64{9, 0} {
		if err := s.Settle(t.Context(), late, nil, nil, cost, false); err != nil {
			t.Errorf("settling with %d: %v", cost, err)
		}
	}
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter"}); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, s, call("convert", today), 0)
	wantCounts(t, s, "key_", map[string]int{"acc_1": 0, "acc_10": 2})
	closed := call("convert", today)
	closed.Account = ledger.Holder("acc_1", store.Closed)
	wantUsed(t, s, closed, 1+5)
}

// TestRetiringFails: a change that is on the disk does not fail because the counts
// of a key that the account no longer has cannot be deleted.
func TestRetiringFails(t *testing.T) {
	t.Parallel()
	s := countedAccounts(t, t.TempDir())
	damaged := appendCountKey(nil, today-9, ledger.Holder("acc_1", "key_0"), "convert")
	if err := writeDurably(s, change{key: damaged, value: []byte{0xff}}); err != nil {
		t.Fatal(err)
	}
	retired := 0
	err := s.ChangeOne(t.Context(), time.Now(), "acc_1", func(a *book.Account) error {
		a.Retired, a.Label = append(a.Retired, "key_0"), "changed"
		retired = len(a.Retired)
		return nil
	})
	if a, failed := s.Get(t.Context(), "acc_1"); err != nil || failed != nil || a.Label != "changed" || retired != 1 {
		t.Errorf("got %v, then %+v, %v", err, a, failed)
	}
}

// TestFailedSyncIsFinal: after a failed sync a later one proves nothing, because
// the kernel may have dropped pages. A change fails also when it is repeated, and
// no call is admitted.
func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(TestStore) error{
		"a credit of a day that is not in memory": func(s TestStore) error {
			return s.Credit(t.Context(), "acc_1", nil, today, "convert", 1)
		},
		"a deletion":   func(s TestStore) error { return s.DeleteAccount(t.Context(), "acc_1") },
		"a revocation": func(s TestStore) error { return s.RevokeKey(t.Context(), "acc_1", "key_1", time.Now()) },
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
		if err := errors.Join(s.journal.log.Rotate(), s.journal.archiveEnded()); !errors.Is(err, errLost) {
			t.Errorf("%s: writing the log to the archive: got %v", name, err)
		}
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

// TestCountsWhileADayIsDropped: the counts of all accounts are found, each once,
// also if the day is dropped from memory meanwhile.
func TestCountsWhileADayIsDropped(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	accounts := []string{"acc_1"}
	for i := range 1000 {
		accounts = append(accounts, fmt.Sprintf("acc_1%04d", i))
	}
	accounts = append(accounts, "acc_2")
	ofKey := call("convert", today)
	ofKey.Key = "key_1"
	other := ofKey
	other.Account = "acc_2"
	take(t, s, ofKey)
	take(t, s, other)
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
		counts, err := s.CountsOfAccounts(ctx, accounts, today, today)
		if err != nil || len(counts) != 2 {
			t.Errorf("got %v, %v, want one of acc_1 and one of acc_2", counts, err)
			break
		}
	}
	stop()
	done.Wait()
}
