package database

import (
	"context"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

const columns = "id, email, password_hash, password_version, created_at, updated_at, logins_end, changes_until, operator"

// ByEmail implements account.Store.
func (s *Store) ByEmail(ctx context.Context, email account.Email) (account.Credential, error) {
	return one(ctx, s, "reading account", scanAccount, "SELECT "+columns+" FROM accounts WHERE email = $1", string(email))
}

// ByID implements account.Store.
func (s *Store) ByID(ctx context.Context, id string) (account.Credential, error) {
	return one(ctx, s, "reading account", scanAccount, "SELECT "+columns+" FROM accounts WHERE id = $1", id)
}

// pageSize is how many rows a statement lists or deletes, so that it ends before
// its timeout.
const pageSize = 1000

// List implements account.Store.
func (s *Store) List(ctx context.Context) (all []account.Credential, err error) {
	after := account.Email("")
	for {
		page, err := list(ctx, s, "reading accounts", scanAccount,
			"SELECT "+columns+" FROM accounts WHERE email > $1 ORDER BY email LIMIT $2", string(after), pageSize)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		after = page[len(page)-1].Email
	}
}

// LoginsToEnd implements account.Store.
func (s *Store) LoginsToEnd(ctx context.Context, after string, limit int) ([]account.Credential, error) {
	read := func(row row) (c account.Credential, err error) {
		err = row.Scan(&c.ID, &c.LoginsEnd)
		return c, err
	}
	return list(ctx, s, "listing login tokens to end", read,
		"SELECT id, logins_end FROM accounts WHERE logins_end > 0 AND id > $1 ORDER BY id LIMIT $2", after, limit)
}

// Add implements account.Store.
func (s *Store) Add(ctx context.Context, a account.Account, hash string) error {
	const statement = "INSERT INTO accounts (" + columns + ") VALUES ($1, $2, $3, 1, $4, $5, 0, 0, FALSE) ON CONFLICT (email) DO NOTHING"
	return s.change(ctx, "writing account", account.ErrEmailTaken, statement,
		a.ID, string(a.Email), hash, a.CreatedAt.UnixMilli(), a.UpdatedAt.UnixMilli())
}

// SetPassword implements account.Store.
func (s *Store) SetPassword(ctx context.Context, c account.Credential) error {
	const statement = "UPDATE accounts SET password_hash = $2, password_version = password_version + 1, updated_at = $3, " +
		"logins_end = password_version + 1, changes_until = $4 WHERE id = $1 AND password_version = $5"
	return s.change(ctx, "setting password", account.ErrOvertaken, statement,
		c.ID, c.Hash, c.UpdatedAt.UnixMilli(), millis(c.ChangesUntil), c.Version)
}

// SetOperator implements account.Store.
func (s *Store) SetOperator(ctx context.Context, id string, operator bool) error {
	return s.change(ctx, "setting operator", account.ErrNotFound, "UPDATE accounts SET operator = $2 WHERE id = $1", id, operator)
}

// LoginsEnded implements account.Store.
func (s *Store) LoginsEnded(ctx context.Context, id string, version int64) error {
	return s.exec(ctx, "noting that login tokens ended",
		"UPDATE accounts SET logins_end = 0 WHERE id = $1 AND logins_end = $2", id, version)
}

// Remove implements account.Store.
func (s *Store) Remove(ctx context.Context, id string) error {
	return s.change(ctx, "removing account", account.ErrNotFound, "DELETE FROM accounts WHERE id = $1", id)
}

// Rehash implements account.Store.
func (s *Store) Rehash(ctx context.Context, id string, version int64, hash string) error {
	return s.exec(ctx, "storing password hash",
		"UPDATE accounts SET password_hash = $3 WHERE id = $1 AND password_version = $2", id, version, hash)
}

// scanAccount reads the columns of one account.
func scanAccount(row row) (account.Credential, error) {
	var c account.Credential
	var created, updated, changes int64
	err := row.Scan(&c.ID, &c.Email, &c.Hash, &c.Version, &created, &updated, &c.LoginsEnd, &changes, &c.Operator)
	if err != nil {
		return account.Credential{}, err
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
