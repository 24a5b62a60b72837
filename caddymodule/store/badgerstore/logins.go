package badgerstore

import (
	"context"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// makeLoginRoom returns what leaves with a new login token: the oldest
// live one where there are too many, and ended ones where too many of
// those are kept. A token that is rotated with an overlap counts, and
// keeps its overlap.
//
// An earlier version had no limit, so there can be tens of thousands to
// end. All but the last of them are removed here, before the new token is
// made: each write of that leaves fewer of the oldest, and is right by
// itself. Other accounts write in between.
func (s *Store) makeLoginRoom(login store.Key, logins []keyRow, replaces keyRow, overlap bool) (departure, error) {
	var live, ended []keyRow
	for _, k := range logins {
		switch {
		case !k.Live(login.CreatedAt):
			ended = append(ended, k)
		case k.ID != replaces.ID:
			live = append(live, k)
		}
	}
	room := store.MaxLiveLogins - 1
	if overlap {
		room--
	}
	surplus := surplusOf(ended)
	leaving := departure{removal(surplus), surplus}
	oldest := tooMany(live, room)
	if len(oldest) == 0 {
		return leaving, nil
	}
	last := len(oldest) - 1
	if err := s.remove(oldest[:last]); err != nil {
		return departure{}, err
	}
	leaving.revoke(login.CreatedAt, oldest[last])
	return leaving, nil
}

// tooMany sorts live tokens by age and returns the oldest of them, as many
// as there are more than room.
func tooMany(live []keyRow, room int) []keyRow {
	slices.SortFunc(live, func(a, b keyRow) int { return byAge(a.Key, b.Key) })
	return live[:max(0, len(live)-room)]
}

// revoke adds keys that are revoked with the write.
func (d *departure) revoke(at time.Time, keys ...keyRow) {
	for _, k := range keys {
		k.RevokedAt = at.UTC()
		d.changes = append(d.changes, k.change())
		d.keys = append(d.keys, k)
	}
}

// EndLogins implements store.Keys. Tokens that have expired, and those
// that an earlier version left beyond the limit, are removed first, so
// that the rest fits into one transaction of Badger. The expired ones are
// not left alone: they may have expired by a clock that is ahead.
func (s *Store) EndLogins(_ context.Context, account string, at time.Time) error {
	return s.alter(account, func() error {
		if _, err := s.account(account); err != nil {
			return err
		}
		keys, err := s.keys(account)
		if err != nil {
			return err
		}
		var live, gone []keyRow
		for _, k := range keys {
			switch {
			case k.Kind != token.Login || !k.RevokedAt.IsZero():
			case k.Live(at):
				live = append(live, k)
			default:
				gone = append(gone, k)
			}
		}
		old := tooMany(live, store.MaxLiveLogins)
		if err := s.remove(append(gone, old...)); err != nil {
			return err
		}
		var leaving departure
		leaving.revoke(at, live[len(old):]...)
		if len(leaving.keys) == 0 {
			return nil
		}
		return s.archive.writeDurably(func() { s.exclude(leaving.keys) }, leaving.changes...)
	})
}
