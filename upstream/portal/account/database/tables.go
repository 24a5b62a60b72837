package database

import (
	"context"
	"errors"
	"strings"
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

// ByReset implements account.Store.
func (s *Store) ByReset(ctx context.Context, id string, now time.Time) (account.Credential, error) {
	const from = " FROM resets JOIN accounts ON accounts.id = resets.account " +
		"WHERE resets.id = $1 AND resets.expires_at > $2 AND resets.password_version = accounts.password_version"
	qualified := "accounts." + strings.ReplaceAll(columns, ", ", ", accounts.")
	return one(ctx, s, "reading reset link", scanAccount, "SELECT "+qualified+from, id, now.UnixMilli())
}

// SetReset implements account.Store. It is one statement, so that the link
// has the version that the account has now.
func (s *Store) SetReset(ctx context.Context, of, id string, expires time.Time) error {
	const statement = "INSERT INTO resets (account, id, password_version, expires_at) " +
		"SELECT id, CAST($2 AS TEXT), password_version, CAST($3 AS BIGINT) FROM accounts WHERE id = $1 " +
		"ON CONFLICT (account) DO UPDATE SET id = excluded.id, " +
		"password_version = excluded.password_version, expires_at = excluded.expires_at"
	return s.change(ctx, "adding reset link", account.ErrNotFound, statement, of, id, expires.UnixMilli())
}

// RemoveReset implements account.Store.
func (s *Store) RemoveReset(ctx context.Context, of string) error {
	return s.exec(ctx, "removing reset link", "DELETE FROM resets WHERE account = $1", of)
}

// linkMargin is how much longer a spent link is stored than it works: the clocks
// of processes differ.
const linkMargin = time.Hour

// ErrSpent means that a portal link was used before.
var ErrSpent = errors.New("it is spent")

// SpendLink spends a portal link, or returns ErrSpent. Of several concurrent calls
// one succeeds.
func (s *Store) SpendLink(ctx context.Context, id string, expires time.Time) error {
	return s.change(ctx, "spending portal link", ErrSpent,
		"INSERT INTO spent_links (id, expires_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING", id, expires.UnixMilli())
}

// Prune implements account.Store.
func (s *Store) Prune(ctx context.Context, now time.Time) error {
	return errors.Join(
		s.prune(ctx, "resets", "expires_at <= $2", now.UnixMilli()),
		s.prune(ctx, "spent_links", "expires_at <= $2", now.Add(-linkMargin).UnixMilli()),
		s.prune(ctx, "sessions", "expires_at <= $2 OR seen_at <= $3", now.UnixMilli(), now.Add(-account.SessionIdle).UnixMilli()),
	)
}

// prune deletes rows page by page: other writers do not wait for all of them.
func (s *Store) prune(ctx context.Context, table, ended string, args ...any) (err error) {
	statement := "DELETE FROM " + table + " WHERE id IN (SELECT id FROM " + table + " WHERE " + ended + " LIMIT $1)"
	for err == nil {
		err = s.change(ctx, "pruning "+table, account.ErrNotFound, statement, append([]any{pageSize}, args...)...)
	}
	if errors.Is(err, account.ErrNotFound) { // nothing is left
		return nil
	}
	return err
}

const sessionColumns = "id, account, password_version, agent, created_at, seen_at, expires_at, portal"

// AddSession stores a new session. A duplicate id is an error: a session must
// not be restored or overwritten. Only a portal session can be of an account
// without a row.
func (s *Store) AddSession(ctx context.Context, a account.Session) error {
	const statement = "INSERT INTO sessions (" + sessionColumns + ", owner) VALUES ($1, CAST($2 AS TEXT), $3, $4, $5, $6, $7, CAST($8 AS BOOLEAN), " +
		"CASE WHEN $8 THEN (SELECT id FROM accounts WHERE id = $2) ELSE $2 END)"
	return s.exec(ctx, "adding session", statement, a.ID, a.AccountID, a.Version, a.Agent,
		a.CreatedAt.UnixMilli(), a.SeenAt.UnixMilli(), a.ExpiresAt.UnixMilli(), a.Portal)
}

// Session returns one session, which may be expired, or account.ErrNotFound.
func (s *Store) Session(ctx context.Context, id string) (account.Session, error) {
	return one(ctx, s, "reading session", scanSession, "SELECT "+sessionColumns+" FROM sessions WHERE id = $1", id)
}

// Sessions returns the sessions of an account, including expired ones, ordered
// by the last visit, newest first.
func (s *Store) Sessions(ctx context.Context, of string) ([]account.Session, error) {
	return list(ctx, s, "listing sessions", scanSession,
		"SELECT "+sessionColumns+" FROM sessions WHERE account = $1 ORDER BY seen_at DESC, id", of)
}

// TouchSession stores the time of a visit. It does nothing if the session is
// deleted.
func (s *Store) TouchSession(ctx context.Context, id string, at time.Time) error {
	return s.exec(ctx, "touching session", "UPDATE sessions SET seen_at = $2 WHERE id = $1", id, at.UnixMilli())
}

// TryPassword counts an attempt at the password in a session and returns the
// number of attempts, or account.ErrNotFound. It is one statement, so that
// parallel attempts get different numbers.
func (s *Store) TryPassword(ctx context.Context, id string) (int, error) {
	return one(ctx, s, "counting password attempt", scanNumber,
		"UPDATE sessions SET attempts = attempts + 1 WHERE id = $1 RETURNING attempts", id)
}

// ForgetTries resets the number of attempts. It does nothing if the session is
// deleted.
func (s *Store) ForgetTries(ctx context.Context, id string) error {
	return s.exec(ctx, "forgetting password attempts", "UPDATE sessions SET attempts = 0 WHERE id = $1", id)
}

// RemoveSession ends one session, if it is there.
func (s *Store) RemoveSession(ctx context.Context, id string) error {
	return s.exec(ctx, "removing session", "DELETE FROM sessions WHERE id = $1", id)
}

// RemoveOtherSessions ends all sessions of an account but one.
func (s *Store) RemoveOtherSessions(ctx context.Context, of, except string) error {
	return s.exec(ctx, "removing sessions", "DELETE FROM sessions WHERE account = $1 AND id <> $2", of, except)
}

// scanSession reads the columns of one session.
func scanSession(row row) (account.Session, error) {
	var a account.Session
	var created, seen, expires int64
	err := row.Scan(&a.ID, &a.AccountID, &a.Version, &a.Agent, &created, &seen, &expires, &a.Portal)
	if err != nil {
		return account.Session{}, err
	}
	a.CreatedAt = time.UnixMilli(created).UTC()
	a.SeenAt = time.UnixMilli(seen).UTC()
	a.ExpiresAt = time.UnixMilli(expires).UTC()
	return a, nil
}
