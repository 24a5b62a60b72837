package badgerstore

import (
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// compact does at once what Badger does in time: it sorts the tables, and
// leaves many small ones.
func compact(t *testing.T, dir string) {
	t.Helper()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithValueThreshold(maxValue).
		WithCompression(options.None).WithBaseTableSize(256 << 10).WithCompactL0OnClose(true))
	if err != nil {
		t.Fatalf("opening the database: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatalf("compacting: %v", err)
	}
}

// TestManyRows: of a store with many tables, which is read in parts,
// every row is there once.
func TestManyRows(t *testing.T) {
	t.Parallel()
	const accounts, batch = 20_000, 1000
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	for n := 0; n < accounts; n += batch {
		if err := populate(s, n, batch); err != nil {
			t.Fatalf("filling: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
	compact(t, dir)
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatalf("opening again: %v", err)
	}
	defer s.Close()
	if len(splits(s.archive.db, []byte{prefixKey}, 2)) == 0 {
		t.Errorf("the sample is too small to be split")
	}
	for i := range accounts {
		account := fmt.Sprintf("acc_%016d", i)
		if got, err := s.Grant(t.Context(), sha256.Sum256([]byte(account)), time.Now()); err != nil || got.Account != account {
			t.Fatalf("grant of %s: got %+v, %v", account, got, err)
		}
		call := store.Call{Account: account, Endpoint: "convert", Day: benchmarkDay}
		if used, admitted, err := TakeDaily(s, call, 1); used != 1 || admitted || err != nil {
			t.Fatalf("take from %s: got %d, %v, %v", account, used, admitted, err)
		}
	}
	for _, prefix := range []byte{prefixAccount, prefixKey, prefixCount} {
		for _, parts := range []int{1, 2, 7} {
			n := atomic.Int64{}
			bounds := append([][]byte{{prefix}}, splits(s.archive.db, []byte{prefix}, parts)...)
			bounds = append(bounds, nil)
			for i := range len(bounds) - 1 {
				err := scanRange(s.archive.db, []byte{prefix}, bounds[i], bounds[i+1], func(_, _ []byte) error { n.Add(1); return nil })
				if err != nil {
					t.Fatalf("scanning: %v", err)
				}
			}
			if n.Load() != accounts {
				t.Errorf("%d rows of %c in %d parts, want %d", n.Load(), prefix, len(bounds)-1, accounts)
			}
		}
	}
}
