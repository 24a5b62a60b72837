package badgerstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
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

// TestManyRows: a store with many tables, which is read in parts, is restored,
// and every row is there once.
func TestManyRows(t *testing.T) {
	t.Parallel()
	accounts := 8000
	if storetest.Long() {
		accounts = 250_000
	}
	dir, now := t.TempDir(), time.Now()
	err := Restore(dir, Options{}, func(yield func(book.Piece, error) bool) {
		for i := range accounts {
			id := fmt.Sprintf("acc_%016d", i)
			key := book.Key{Key: store.Key{ID: "key_" + id, Account: id, Kind: token.Key, Name: "ci", CreatedAt: now}, Hash: sha256.Sum256([]byte(id))}
			for _, piece := range []book.Piece{
				{Document: &book.Account{Account: store.Account{ID: id, Plan: "starter", CreatedAt: now}, Keys: []*book.Key{&key}}},
				{Count: &store.StoredCount{Account: id, Count: store.Count{Day: today, Endpoint: "convert", Used: 1}}},
			} {
				if !yield(piece, nil) {
					return
				}
			}
		}
	})
	if err != nil {
		t.Fatalf("restoring: %v", err)
	}
	compact(t, dir)
	s := openHere(t, dir, Options{})
	if got, err := s.Totals(t.Context()); err != nil || got != (store.Totals{Accounts: accounts, LiveKeys: accounts}) {
		t.Errorf("got %+v, %v, want %d", got, err, accounts)
	}
	if len(splits(s.archive.db, []byte{prefixKeys}, 2)) == 0 {
		t.Errorf("the sample is too small to be split")
	}
	for i := range accounts {
		account := fmt.Sprintf("acc_%016d", i)
		if got, err := s.Grant(t.Context(), sha256.Sum256([]byte(account)), time.Now()); err != nil || got.Account != account {
			t.Fatalf("grant of %s: got %+v, %v", account, got, err)
		}
		call := store.Call{Account: account, Endpoint: "convert", Day: today}
		if used, admitted, err := TakeDaily(s.Store, call, 1); used != 1 || admitted || err != nil {
			t.Fatalf("take from %s: got %d, %v, %v", account, used, admitted, err)
		}
	}
	for _, prefix := range []byte{prefixAccount, prefixKeys, prefixCount} {
		for _, parts := range []int{1, 2, 7} {
			n := atomic.Int64{}
			bounds := append([][]byte{{prefix}}, splits(s.archive.db, []byte{prefix}, parts)...)
			bounds = append(bounds, nil)
			for i := range len(bounds) - 1 {
				err := s.archive.view(func(txn *badger.Txn) error {
					return scanTxn(txn, []byte{prefix}, bounds[i], bounds[i+1], func(_, _ []byte) error { n.Add(1); return nil })
				})
				if err != nil {
					t.Fatalf("scanning: %v", err)
				}
			}
			if n.Load() != int64(accounts) {
				t.Errorf("%d rows of %c in %d parts, want %d", n.Load(), prefix, len(bounds)-1, accounts)
			}
		}
	}
}

// TestScanWithoutClient: the scans that one request can need end when its
// client is gone.
func TestScanWithoutClient(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := openWith(t, now, "acc_1")
	key := store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key, Name: "ci", CreatedAt: now}
	if err := s.CreateKey(t.Context(), key, sha256.Sum256([]byte("ci"))); err != nil {
		t.Fatal(err)
	}
	err := s.ChangeOne(t.Context(), now, "acc_1", func(a *book.Account) error {
		for range 501 { // more than the book reads at once
			a.Record(store.Entry{At: now})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, scan := range map[string]func(context.Context) error{
		"entries": func(ctx context.Context) error {
			_, err := s.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_2"}}, store.EntryID{}, 1)
			return err
		},
		"last entries": func(ctx context.Context) error {
			_, err := s.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_2"}, NewestFirst: true}, store.EntryID{}, 1)
			return err
		},
		"keys": func(ctx context.Context) error {
			if _, err := s.FindKey(ctx, "key_2"); !errors.Is(err, store.ErrNotFound) {
				return err
			}
			return nil
		},
	} {
		gone, leave := context.WithCancel(t.Context())
		if err := scan(gone); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
		leave()
		if err := scan(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("%s without a client: got %v, want %v", name, err, context.Canceled)
		}
	}
}
