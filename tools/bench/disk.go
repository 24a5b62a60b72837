package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// storedCalls are the calls of an account in each of its counts.
const storedCalls = 1000

// diskAccounts and diskDays are how many accounts and days of counts are
// measured on the disk.
const diskAccounts, diskDays = 100_000, 10

// measureDisk measures the directory of a store with accounts, with and
// without counts of some days.
func measureDisk(ctx context.Context) ([]row, error) {
	empty, err := diskOf(ctx, 0)
	if err != nil {
		return nil, err
	}
	counted, err := diskOf(ctx, diskDays)
	if err != nil {
		return nil, err
	}
	return []row{
		{what: fmt.Sprintf("disk per account, %d with a key", diskAccounts), unit: asBytes, measured: values{float64(empty) / diskAccounts}},
		{what: "disk per account, endpoint and day with a count", unit: asBytes, measured: values{float64(counted-empty) / diskAccounts / diskDays}},
	}, nil
}

// diskOf returns the size of a closed store with counts of so many days.
func diskOf(ctx context.Context, days int) (size int64, err error) {
	dir, err := os.MkdirTemp("", "tollgate-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "gate")
	if _, err := restoreStore(ctx, path, diskAccounts, days, 1); err != nil {
		return 0, err
	}
	err = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// accountPieces makes accounts with a key and counts of so many days, and
// passes their tokens on.
func accountPieces(ctx context.Context, accounts, days int, made func(i int, token string)) iter.Seq2[book.Piece, error] {
	return func(yield func(book.Piece, error) bool) {
		day, err := today()
		for i := range accounts {
			if err == nil {
				err = ctx.Err()
			}
			t, id, failed := newKey()
			if err != nil || failed != nil {
				yield(book.Piece{}, fmt.Errorf("making account %d: %w", i, cmp.Or(err, failed)))
				return
			}
			made(i, t.Reveal())
			account := accountID(i)
			key := store.Key{ID: id, Account: account, Kind: token.Key, Name: "bench", Abilities: []string{"convert"}, Hint: "tgk_…abcd", CreatedAt: time.Now()}
			pieces := []book.Piece{{Document: &book.Account{
				Account: store.Account{ID: account, Plan: planFour, Label: "somebody@example.com", CreatedAt: time.Now()},
				Exists:  true, Keys: []*book.Key{{Key: key, Hash: t.Hash()}},
			}}}
			for n := range days {
				count := store.Count{Day: day - calendar.Day(n), Endpoint: "convert", Used: storedCalls}
				pieces = append(pieces, book.Piece{Count: &store.StoredCount{Account: account, Count: count}})
			}
			for _, piece := range pieces {
				if !yield(piece, nil) {
					return
				}
			}
		}
	}
}
