package badgerstore

import (
	"context"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

// Save implements login.Journal. It waits for writes that are in progress;
// only the disk limits that time.
func (s *Store) Save(_ context.Context, rows []login.Row) error {
	changes := make([]change, len(rows))
	for i, row := range rows {
		changes[i] = change{key: attemptKey(row.Key), value: row.Value, expires: row.ExpiresAt}
	}
	return s.ledger.Use(func() error { return s.archive.write(soon, changes...) })
}

// LoadAttempts implements login.Journal.
func (s *Store) LoadAttempts(_ context.Context, fn func(key, value []byte) error) error {
	return s.ledger.Use(func() error {
		return s.archive.scan([]byte{prefixAttempt}, func(key, value []byte) error { return fn(key[1:], value) })
	})
}

// Interface guard.
var _ login.Journal = (*Store)(nil)
