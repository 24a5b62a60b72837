package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// timeout is how long a statement may take, with the wait for a connection. A
// database that is stopped would otherwise keep requests and connections for
// ever.
const timeout = 5 * time.Second

// errTimeout is the error of a statement after the timeout.
var errTimeout = fmt.Errorf("no answer within %s: it is stopped, locked by another program, or overloaded", timeout)

// limit returns the context of one statement.
func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errTimeout)
}

// failed wraps the error of a statement with this context.
func failed(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%s: %w: %w", doing, account.ErrDatabase, err)
}

// row is a row of a result: *sql.Row or *sql.Rows.
type row interface{ Scan(...any) error }

// one returns the row of a result, or account.ErrNotFound.
func one[T any](ctx context.Context, s *Store, doing string, read func(row) (T, error), statement string, args ...any) (T, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	found, err := read(s.db.QueryRowContext(ctx, statement, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return found, account.ErrNotFound
	}
	return found, failed(ctx, doing, err)
}

// list returns all rows of a result.
func list[T any](ctx context.Context, s *Store, doing string, read func(row) (T, error), statement string, args ...any) ([]T, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	rows, err := s.db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, failed(ctx, doing, err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		found, err := read(rows)
		if err != nil {
			return nil, failed(ctx, doing, err)
		}
		all = append(all, found)
	}
	return all, failed(ctx, doing, rows.Err())
}

// scanNumber reads a row with one number.
func scanNumber(row row) (n int, err error) {
	err = row.Scan(&n)
	return n, err
}

// change runs one statement as a transaction: writers wait only for the disk.
// It returns none if no row was changed.
func (s *Store) change(ctx context.Context, doing string, none error, statement string, args ...any) error {
	ctx, cancel := limit(ctx)
	defer cancel()
	result, err := s.db.ExecContext(ctx, statement, args...)
	var changed int64
	if err == nil {
		changed, err = result.RowsAffected()
	}
	if err == nil && changed == 0 {
		return none
	}
	return failed(ctx, doing, err)
}

// exec is change for a statement that may change no row.
func (s *Store) exec(ctx context.Context, doing, statement string, args ...any) error {
	return s.change(ctx, doing, nil, statement, args...)
}
