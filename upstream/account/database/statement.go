package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/caddy-tollgate/tollgate/upstream/account"
)

// row is a row of a result: *sql.Row or *sql.Rows.
type row interface{ Scan(...any) error }

// scan reads the columns of a row, or returns account.ErrNotFound.
func scan(row row, doing string, columns ...any) error {
	err := row.Scan(columns...)
	if errors.Is(err, sql.ErrNoRows) {
		return account.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// list returns all rows of a result.
func list[T any](ctx context.Context, s *Store, doing string, read func(row) (T, error), statement string, args ...any) ([]T, error) {
	rows, err := s.db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := read(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return all, nil
}

// change runs one statement as a transaction: writers wait only for the disk.
// It returns none if no row was changed.
func (s *Store) change(ctx context.Context, doing string, none error, statement string, args ...any) error {
	result, err := s.db.ExecContext(ctx, statement, args...)
	var changed int64
	if err == nil {
		changed, err = result.RowsAffected()
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	case changed == 0:
		return none
	}
	return nil
}

// exec is change for a statement that may change no row.
func (s *Store) exec(ctx context.Context, doing, statement string, args ...any) error {
	return s.change(ctx, doing, nil, statement, args...)
}
