// Package benchtest opens and fills the stores that benchmarks measure. The
// packages of the stores are internal.
package benchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Store is an open store.
type Store struct {
	*book.Book
	engine io.Closer
}

// Close writes what is pending, and closes the store.
func (s *Store) Close() error { return errors.Join(s.Book.Close(), s.engine.Close()) }

// OpenBadger opens a store in a directory.
func OpenBadger(dir string) (*Store, error) {
	db, err := badgerstore.Open(dir, badgerstore.Options{})
	if err != nil {
		return nil, err
	}
	return &Store{book.New(db, slog.Default()), db}, nil
}

// RestoreBadger makes a store of these pieces in a directory that does not
// exist.
func RestoreBadger(dir string, pieces iter.Seq2[book.Piece, error]) error {
	return badgerstore.Restore(dir, badgerstore.Options{}, pieces)
}

// OpenRedis opens a store and waits until it is connected.
func OpenRedis(ctx context.Context, url string) (*Store, error) {
	const pause = 2 * time.Millisecond
	db, err := redisstore.Open(redisstore.Options{URL: url, Timeout: 10 * time.Second}) // a busy machine may be late
	if err != nil {
		return nil, err
	}
	for {
		err := db.Check(ctx)
		if err == nil {
			return &Store{book.New(db, slog.Default()), db}, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("connecting to redis: %w", err), db.Close())
		case <-time.After(pause):
		}
	}
}

// Ledger is the memory of a store of Badger.
type Ledger struct{ ledger *ledger.Ledger }

// NewLedger returns a ledger whose log has one call of each account on an
// earlier day of the month, and keeps nothing else.
func NewLedger() Ledger { return Ledger{ledger.New(yesterdays{})} }

// Put adds an account with a key.
func (l Ledger) Put(account *store.Account, id string, hash token.Hash) {
	l.ledger.PutAccount(account)
	l.ledger.PutToken(&ledger.Token{Hash: hash, Account: account.ID, ID: id, Name: "bench", Abilities: "convert"})
}

// Take counts a call, as store.Counter does.
func (l Ledger) Take(call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	return l.ledger.Take(call, limits, rooms)
}

type yesterdays struct{}

func (yesterdays) Append(*ledger.Group) error { return nil }

func (yesterdays) LoadDay(calendar.Day, func(holder, endpoint string, used int64)) error { return nil }

func (yesterdays) LoadHolder(_ string, _ []calendar.Day, fn func(endpoint string, used int64)) error {
	fn("convert", 1)
	return nil
}

func (yesterdays) Edit([]ledger.Edit) error { return nil }
