package badgerstore

import (
	"context"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// enforceLoginLimit returns the login tokens that end with a new one: the
// oldest live ones if there are too many, and ended ones if too many of them
// are stored. A token that is rotated with an overlap counts as live.
func (s *Store) enforceLoginLimit(login store.Key, logins []keyRow, replaces keyRow, overlap bool) endedKeys {
	var live, ended []keyRow
	for _, k := range logins {
		switch {
		case !k.Live(login.CreatedAt):
			ended = append(ended, k)
		case k.ID != replaces.ID:
			live = append(live, k)
		}
	}
	limit := store.MaxLiveLogins - 1
	if overlap {
		limit--
	}
	excess := tooManyEnded(ended)
	ending := endedKeys{deletions(excess), excess}
	slices.SortFunc(live, func(a, b keyRow) int { return byAge(a.Key, b.Key) })
	ending.revoke(login.CreatedAt, live[:max(0, len(live)-limit)]...)
	return ending
}

// revoke adds keys to revoke with the write.
func (d *endedKeys) revoke(at time.Time, keys ...keyRow) {
	for _, k := range keys {
		k.RevokedAt = at.UTC()
		d.changes = append(d.changes, k.change())
		d.keys = append(d.keys, k)
	}
}

// EndLogins implements store.Keys. It also revokes expired tokens: they may only
// look expired to a clock that is ahead. All of them fit into one transaction.
func (s *Store) EndLogins(_ context.Context, account string, at time.Time) error {
	return s.alter(account, func() error {
		if _, err := s.account(account); err != nil {
			return err
		}
		keys, err := s.keys(account)
		if err != nil {
			return err
		}
		var ending endedKeys
		for _, k := range keys {
			if k.Kind == token.Login && k.RevokedAt.IsZero() {
				ending.revoke(at, k)
			}
		}
		if len(ending.keys) == 0 {
			return nil
		}
		return s.archive.writeDurably(func() { s.removeTokens(ending.keys) }, ending.changes...)
	})
}
