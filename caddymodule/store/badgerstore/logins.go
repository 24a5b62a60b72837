package badgerstore

import (
	"context"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// enforceLoginLimit returns the login tokens that end with a new one: the
// oldest live one if there are too many, and ended ones if too many of them
// are stored. A token that is rotated with an overlap counts as live.
//
// Earlier versions had no limit, so tens of thousands can exceed it. All but
// the last of them are deleted here, before the new token is stored, in
// several writes, between which other accounts can write.
func (s *Store) enforceLoginLimit(login store.Key, logins []keyRow, replaces keyRow, overlap bool) (endedKeys, error) {
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
	oldest := tooMany(live, limit)
	if len(oldest) == 0 {
		return ending, nil
	}
	last := len(oldest) - 1
	if err := s.remove(oldest[:last]); err != nil {
		return endedKeys{}, err
	}
	ending.revoke(login.CreatedAt, oldest[last])
	return ending, nil
}

// tooMany sorts live tokens by age and returns the oldest that exceed a
// limit.
func tooMany(live []keyRow, limit int) []keyRow {
	slices.SortFunc(live, func(a, b keyRow) int { return byAge(a.Key, b.Key) })
	return live[:max(0, len(live)-limit)]
}

// revoke adds keys to revoke with the write.
func (d *endedKeys) revoke(at time.Time, keys ...keyRow) {
	for _, k := range keys {
		k.RevokedAt = at.UTC()
		d.changes = append(d.changes, k.change())
		d.keys = append(d.keys, k)
	}
}

// EndLogins implements store.Keys. It first deletes expired tokens, and those
// that an earlier version stored beyond the limit, so that the rest fits into
// one transaction of Badger. Expired tokens are deleted because they may only
// look expired to a clock that is ahead.
func (s *Store) EndLogins(_ context.Context, account string, at time.Time) error {
	return s.alter(account, func() error {
		if _, err := s.account(account); err != nil {
			return err
		}
		keys, err := s.keys(account)
		if err != nil {
			return err
		}
		var live, expired []keyRow
		for _, k := range keys {
			switch {
			case k.Kind != token.Login || !k.RevokedAt.IsZero():
			case k.Live(at):
				live = append(live, k)
			default:
				expired = append(expired, k)
			}
		}
		old := tooMany(live, store.MaxLiveLogins)
		if err := s.remove(append(expired, old...)); err != nil {
			return err
		}
		var ending endedKeys
		ending.revoke(at, live[len(old):]...)
		if len(ending.keys) == 0 {
			return nil
		}
		return s.archive.writeDurably(func() { s.removeTokens(ending.keys) }, ending.changes...)
	})
}
