package badgerstore

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/throttle"
)

// Save implements store.Attempts. It waits for the group that the rows
// are committed with, which the disk bounds.
func (s *Store) Save(_ context.Context, rows []throttle.Row) error {
	changes := make([]ledger.Change, len(rows))
	for i, row := range rows {
		changes[i] = ledger.Change{Key: attemptKey(row.Key), Value: row.Value, ExpiresAt: row.ExpiresAt}
	}
	return s.ledger.Use(func() error { return s.ledger.Write(false, changes...) })
}

// LoadAttempts implements store.Attempts.
func (s *Store) LoadAttempts(_ context.Context, fn func(key, value []byte) error) error {
	return s.ledger.Use(func() error {
		return s.scan([]byte{prefixAttempt}, func(key, value []byte) error { return fn(key[1:], value) })
	})
}
