package database

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

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
