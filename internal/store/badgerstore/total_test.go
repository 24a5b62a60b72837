package badgerstore

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

var totalLimits = []store.Limit{
	{Endpoint: "convert", Period: store.Total, Max: 100}, {Endpoint: "convert", Period: store.Total, Max: 100, OfKey: true},
	{Endpoint: "convert", Period: store.Total, Max: 100, Calls: true},
}

func totalCall(account string) store.Call {
	return store.Call{Account: account, Key: "key_" + account, Endpoint: "convert", Day: today, Cost: 4}
}

func takeTotals(t *testing.T, s TestStore, account string) {
	t.Helper()
	if admitted, err := s.Take(t.Context(), totalCall(account), totalLimits, make([]store.Room, len(totalLimits))); !admitted || err != nil {
		t.Errorf("take of %s: %v, %v", account, admitted, err)
	}
}

// wantTotals checks what an account, its key and its number of calls have used.
func wantTotals(t *testing.T, s TestStore, account string, want ...int64) {
	t.Helper()
	rooms, used := make([]store.Room, len(totalLimits)), make([]int64, len(totalLimits))
	err := s.Rooms(t.Context(), totalCall(account), totalLimits, rooms)
	for i := range rooms {
		used[i] = rooms[i].Used(&totalLimits[i])
	}
	if err != nil || !slices.Equal(used, want) {
		t.Errorf("totals of %s: got %v, %v, want %v", account, used, err, want)
	}
}

// TestTotalsAreKept: totals never expire. They are there when the store opens again,
// after a crash, and when old days are forgotten. Credits lower them.
func TestTotalsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := countedAccounts(t, dir)
	takeTotals(t, s, "acc_1")
	takeTotals(t, s, "acc_1")
	s.forget(time.Now())
	wantTotals(t, s, "acc_1", 8, 8, 2)
	wantTotals(t, s, "acc_10", 0, 0, 0)
	crashed := t.TempDir()
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"closed": dir, "crashed": crashed} {
		s := openHere(t, dir, Options{})
		if days, err := s.days(); err != nil || !slices.Equal(days, []calendar.Day{today - 9, today, store.TotalDay}) {
			t.Errorf("%s: got days %v, %v", name, days, err)
		}
		for i := range 2 { // of a day in memory, and of one that is not
			s.Forget(func(calendar.Day) bool { return i == 0 })
			if err := s.Credit(t.Context(), "acc_1", []string{"key_acc_1"}, today, "convert", int64(3+3*i)); err != nil {
				t.Fatal(err)
			}
			wantTotals(t, s, "acc_1", int64(5-3*i), int64(5-3*i), 2)
		}
		s.Forget(func(calendar.Day) bool { return false })
		wantTotals(t, s, "acc_1", 2, 2, 2)
	}
}

// TestTotalsOfDeletedAccounts: no totals stay of a deleted account, and the next one
// with its id finds none, whenever it is created. If the process ends before they
// are deleted, the row that tells so does not expire.
func TestTotalsOfDeletedAccounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := countedAccounts(t, dir)
	mark := string(deletedKey("acc_1"))
	expires := func(s TestStore) bool {
		return slices.ContainsFunc(s.rowsForTest(t), func(key []byte) bool { return string(key) == mark })
	}
	takeTotals(t, s, "acc_1")
	takeTotals(t, s, "acc_10")
	add, errLost, writes := s.journal.append, errors.New("pages lost"), 0
	appendWith(s, func(record []byte) error {
		if writes++; writes > 1 { // the account is deleted
			return errLost
		}
		return add(record)
	})
	if err := s.DeleteAccount(t.Context(), "acc_1"); err != nil {
		t.Fatal(err)
	}
	crashed := t.TempDir()
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	appendWith(s, add)
	for name, s := range map[string]TestStore{"the same process": s, "the next process": openHere(t, crashed, Options{})} {
		if rows := s.rowsBelow(t, deletedKey("")); !slices.Equal(rows, []string{mark}) || expires(s) {
			t.Errorf("%s: deleted are %q, which expires: %v", name, rows, expires(s))
		}
		for range 2 {
			if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter"}); err != nil {
				t.Fatal(err)
			}
			if err := s.CreateKey(t.Context(), newKey("acc_1", "key_acc_1", time.Now()), token.Hash{9}); err != nil {
				t.Fatal(err)
			}
			wantTotals(t, s, "acc_1", 0, 0, 0)
			wantTotals(t, s, "acc_10", 4, 4, 1)
			takeTotals(t, s, "acc_1")
			if err := s.DeleteAccount(t.Context(), "acc_1"); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"", "key_acc_1", store.CallsKey} {
				if left, err := s.Counts(t.Context(), "acc_1", key, store.TotalDay, store.TotalDay); err != nil || len(left) > 0 {
					t.Errorf("%s: the totals of %q are %v, %v", name, key, left, err)
				}
			}
			if !expires(s) {
				t.Errorf("%s: the row of the deleted account does not expire", name)
			}
		}
	}
}
