package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/account"
)

const columns = "id, email, password_hash, password_version, created_at, updated_at, logins_end, changes_until"

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

// LoginsToEnd implements account.Reader.
func (s *Store) LoginsToEnd(ctx context.Context, limit int) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT id FROM accounts WHERE logins_end > 0 ORDER BY id LIMIT $1", limit)
	if err != nil {
		return nil, fmt.Errorf("listing login tokens to end: %w", err)
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("listing login tokens to end: %w", err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("listing login tokens to end: %w", err)
	}
	return ids, nil
}

// Add implements account.Writer.
func (s *Store) Add(ctx context.Context, a account.Account, hash string) error {
	const statement = "INSERT INTO accounts (" + columns + ") VALUES ($1, $2, $3, 1, $4, $5, 0, 0) ON CONFLICT (email) DO NOTHING"
	return s.change(ctx, "adding account", account.ErrEmailTaken, statement,
		a.ID, string(a.Email), hash, a.CreatedAt.UnixMilli(), a.UpdatedAt.UnixMilli())
}

// SetPassword implements account.Writer.
func (s *Store) SetPassword(ctx context.Context, p account.PasswordChange) error {
	const statement = "UPDATE accounts SET password_hash = $2, password_version = password_version + 1, updated_at = $3, " +
		"logins_end = password_version + 1, changes_until = $4 WHERE id = $1 AND password_version = $5"
	return s.change(ctx, "setting password", account.ErrOvertaken, statement,
		p.ID, p.Hash, p.At.UnixMilli(), millis(p.ChangesUntil), p.Version)
}

// LoginsEnded implements account.Writer.
func (s *Store) LoginsEnded(ctx context.Context, id string, version int64) error {
	return s.exec(ctx, "noting that login tokens ended",
		"UPDATE accounts SET logins_end = 0 WHERE id = $1 AND logins_end = $2", id, version)
}

// Remove implements account.Writer.
func (s *Store) Remove(ctx context.Context, id string) error {
	return s.change(ctx, "removing account", account.ErrNotFound, "DELETE FROM accounts WHERE id = $1", id)
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

// change runs one statement as a transaction: writers wait only for the disk.
// It returns none if no row was changed.
func (s *Store) change(ctx context.Context, doing string, none error, statement string, args ...any) error {
	result, err := s.db.ExecContext(ctx, statement, args...)
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
	return nil
}

// scan reads the columns of one account.
func scan(row interface{ Scan(...any) error }) (account.Credential, error) {
	var c account.Credential
	var created, updated, changes int64
	err := row.Scan(&c.ID, &c.Email, &c.Hash, &c.Version, &created, &updated, &c.LoginsEnd, &changes)
	if errors.Is(err, sql.ErrNoRows) {
		return account.Credential{}, account.ErrNotFound
	}
	if err != nil {
		return account.Credential{}, fmt.Errorf("reading account: %w", err)
	}
	c.CreatedAt = time.UnixMilli(created).UTC()
	c.UpdatedAt = time.UnixMilli(updated).UTC()
	if changes != 0 {
		c.ChangesUntil = time.UnixMilli(changes).UTC()
	}
	return c, nil
}

// millis returns the stored form of a time; 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
