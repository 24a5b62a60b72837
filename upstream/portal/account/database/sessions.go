package database

import (
	"context"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

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
