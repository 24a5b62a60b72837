package badgerstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/wal"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// update writes to the database in a directory that no store has open.
func update(t *testing.T, dir string, fn func(*badger.Txn) error) {
	t.Helper()
	db, err := openBadger(dir, zap.NewNop())
	if err == nil {
		err = errors.Join(db.Update(fn), db.Close())
	}
	if err != nil {
		t.Fatalf("changing the database alone: %v", err)
	}
}

// TestFormats: a directory of another format is refused with both numbers and is
// not called damaged. One with data and without a format is damaged.
func TestFormats(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHere(t, dir, Options{})
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"tollgate 12", "tollgate 14", "tollgate 90", ""} {
		update(t, dir, func(txn *badger.Txn) error {
			if other == "" {
				return txn.Delete(versionKey)
			}
			return txn.Set(versionKey, []byte(other))
		})
		want := `store has format "` + other + `", want "` + version + `"`
		if other == "" {
			want = "store is damaged: its format is missing"
		}
		for range 2 {
			if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	update(t, dir, func(txn *badger.Txn) error { return txn.Set(versionKey, []byte(version)) })
	if got, err := openHere(t, dir, Options{}).Account(t.Context(), "acc_1"); err != nil || got.Plan != "starter" {
		t.Errorf("with its own format: got account %+v, %v", got, err)
	}
}

// TestInterruptedFirstStart: a start that was killed between the first segment
// of the log and the format of the database leaves an empty store, no damage.
func TestInterruptedFirstStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	update(t, dir, func(*badger.Txn) error { return nil })
	log, err := wal.Open(dir, 0, nil, wal.Options{CheckSpace: func() error { return nil }})
	if err = errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
	if list, err := openHere(t, dir, Options{}).ListAccounts(t.Context(), "", 10); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
}

// TestMissingNumbers: a database that lacks one of its last numbered writes is
// refused, also if it has an older one in its place.
func TestMissingNumbers(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{Reserve: 1})
	stopBackground(s)
	check := func(what string, refused bool) {
		t.Helper()
		if err := s.archive.loadKept(); (err != nil) != refused {
			t.Errorf("%s: got %v", what, err)
		}
	}
	before := s.archive.kept
	for range 3 {
		if err := s.archive.write(kept, change{key: attemptKey([]byte("row")), value: []byte{1}}); err != nil {
			t.Fatal(err)
		}
	}
	if check("all", false); s.archive.kept != before+3 {
		t.Errorf("the last number is %d, want %d", s.archive.kept, before+3)
	}
	first := keptRow(1)
	first.value = nil
	set := func(rows ...change) {
		if err := s.archive.write(soon, rows...); err != nil {
			t.Fatal(err)
		}
	}
	set(first)
	check("without the first", true)
	var full []change
	for i := range uint64(keptRows) {
		full = append(full, keptRow(5000+i))
	}
	set(full...)
	check("a full ring", false)
	set(keptRow(6000 - keptRows))
	check("an older one", true)
	set(keptRow(6000))
}
