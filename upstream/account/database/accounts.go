package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/account"
)

const columns = "id, email, password_hash, password_version, created_at, updated_at"

// ByEmail implements account.Reader.
func (s *Store) ByEmail(ctx context.Context, email account.Email) (account.Credential, error) {
	return scan(s.db.QueryRowContext(ctx, "SELECT "+columns+" FROM accounts WHERE email = $1", string(email)))
}

// ByID implements account.Reader.
func (s *Store) ByID(ctx context.Context, id string) (account.Credential, error) {
	return scan(s.db.QueryRowContext(ctx, "SELECT "+columns+" FROM accounts WHERE id = $1", id))
}

// List implements account.Reader.
func (s *Store) List(ctx context.Context, after account.Email, limit int) ([]account.Account, error) {
	rows, err := s.db.QueryContext(ctx,
		"SELECT "+columns+" FROM accounts WHERE email > $1 ORDER BY email LIMIT $2", string(after), limit)
	if err != nil {
		return nil, fmt.Errorf("listing accounts: %w", err)
	}
	defer rows.Close()
	var accounts []account.Account
	for rows.Next() {
		c, err := scan(rows)
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, c.Account)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("listing accounts: %w", err)
	}
	return accounts, nil
}

// Add implements account.Writer.
func (s *Store) Add(ctx context.Context, a account.Account, hash string, agree func() error) error {
	const statement = "INSERT INTO accounts (" + columns + ") VALUES ($1, $2, $3, 1, $4, $5) ON CONFLICT (email) DO NOTHING"
	return s.change(ctx, "adding account", account.ErrEmailTaken, agree, statement,
		a.ID, string(a.Email), hash, a.CreatedAt.UnixMilli(), a.UpdatedAt.UnixMilli())
}

// SetPassword implements account.Writer.
func (s *Store) SetPassword(ctx context.Context, id string, version int64, hash string, at time.Time, agree func() error) error {
	const statement = "UPDATE accounts SET password_hash = $2, password_version = password_version + 1, updated_at = $3 WHERE id = $1 AND password_version = $4"
	return s.change(ctx, "setting password", account.ErrOvertaken, agree, statement, id, hash, at.UnixMilli(), version)
}

// Remove implements account.Writer.
func (s *Store) Remove(ctx context.Context, id string, agree func() error) error {
	return s.change(ctx, "removing account", account.ErrNotFound, agree, "DELETE FROM accounts WHERE id = $1", id)
}

// Rehash implements account.Writer.
func (s *Store) Rehash(ctx context.Context, id string, version int64, hash string) error {
	_, err := s.db.ExecContext(ctx,
		"UPDATE accounts SET password_hash = $3 WHERE id = $1 AND password_version = $2", id, version, hash)
	if err != nil {
		return fmt.Errorf("storing password hash: %w", err)
	}
	return nil
}

// change runs one statement in a transaction and commits it if it touched
// a row and the others agree. It returns none if there was no row.
func (s *Store) change(ctx context.Context, doing string, none error, agree func() error, statement string, args ...any) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	// After a commit this does nothing, and after a failed one the
	// connection is gone: there is nobody to tell.
	defer func() { _ = tx.Rollback() }()
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if n == 0 {
		return none
	}
	if err := agree(); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		// When the caller left, the transaction is over already, and only
		// the context tells why.
		return fmt.Errorf("%s: committing: %w", doing, cmp.Or(ctx.Err(), err))
	}
	return nil
}

// scan reads the columns of one account.
func scan(row interface{ Scan(...any) error }) (account.Credential, error) {
	var c account.Credential
	var created, updated int64
	err := row.Scan(&c.ID, &c.Email, &c.Hash, &c.Version, &created, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return account.Credential{}, account.ErrNotFound
	}
	if err != nil {
		return account.Credential{}, fmt.Errorf("reading account: %w", err)
	}
	c.CreatedAt = time.UnixMilli(created).UTC()
	c.UpdatedAt = time.UnixMilli(updated).UTC()
	return c, nil
}
