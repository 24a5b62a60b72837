package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// CreateKey implements store.Keys.
func (s *Store) CreateKey(_ context.Context, key store.Key, hash token.Hash) error {
	return s.alter(key.Account, func() error {
		if _, err := s.account(key.Account); err != nil {
			return err
		}
		leaving, err := s.makeRoom(key, keyRow{}, false)
		if err != nil {
			return err
		}
		k := keyRow{Key: key, hash: hash}
		apply := func() {
			s.exclude(leaving.keys)
			s.admit(k)
		}
		return s.archive.writeDurably(apply, append(leaving.changes, k.change())...)
	})
}

// departure is what leaves with a write: the rows to write or delete, and
// the keys whose tokens end with it.
type departure struct {
	changes []change
	keys    []keyRow
}

// makeRoom checks a new key or login token against those of its kind that
// the account has, and returns what has to leave with it.
func (s *Store) makeRoom(key store.Key, replaces keyRow, overlap bool) (departure, error) {
	keys, err := s.keys(key.Account)
	if err != nil {
		return departure{}, err
	}
	keys = slices.DeleteFunc(keys, func(k keyRow) bool { return k.Kind != key.Kind })
	if key.Kind == token.Login {
		return s.makeLoginRoom(key, keys, replaces, overlap)
	}
	surplus, err := checkKey(key, keys, replaces, overlap)
	return departure{removal(surplus), surplus}, err
}

// checkKey checks a new key against the account's live ones. The key that
// it replaces lends it its name: the one before that may still live for
// its overlap. A younger one of that name has replaced it already, and it
// would be open which of two successors lasts. One that ends at once
// makes room, also where there are too many. It returns the ended keys
// that are too many: not those that a clock ahead takes for expired.
func checkKey(key store.Key, keys []keyRow, replaces keyRow, overlap bool) (surplus []keyRow, err error) {
	var ended []keyRow
	live := 0
	for _, k := range keys {
		if !k.Live(key.CreatedAt.Add(-clockAhead)) {
			ended = append(ended, k)
		}
		if !k.Live(key.CreatedAt) {
			continue
		}
		live++
		if k.ID != replaces.ID && k.Name == key.Name && (key.Name != replaces.Name || k.CreatedAt.After(replaces.CreatedAt)) {
			return nil, store.ErrNameTaken
		}
	}
	if live >= store.MaxLiveKeys && (replaces.ID == "" || overlap) {
		return nil, store.ErrTooManyKeys
	}
	return surplusOf(ended), nil
}

// surplusOf returns those of an account's ended keys that are too many,
// the one that ended first before the others, and not more than go at once:
// where there are many, later calls go on.
func surplusOf(ended []keyRow) []keyRow {
	if len(ended) <= store.MaxEndedKeys {
		return nil
	}
	slices.SortFunc(ended, func(a, b keyRow) int { return a.endedAt().Compare(b.endedAt()) })
	return ended[:min(len(ended)-store.MaxEndedKeys, maxRemovals)]
}

// maxRemovals is how many keys are removed with one write. Their rows are
// 400 KiB at most, a third of what fits into one transaction.
const maxRemovals = 2000

// removal is what removes keys.
func removal(keys []keyRow) (changes []change) {
	for _, k := range keys {
		changes = append(changes, change{key: keyKey(k.Account, k.ID)}, change{key: usedKey(k.ID)})
	}
	return changes
}

// exclude ends the tokens of keys that were revoked or removed. None may
// outlive its row: it could not be revoked.
func (s *Store) exclude(keys []keyRow) {
	for _, k := range keys {
		s.ledger.RemoveToken(k.hash)
	}
}

// endedAt is when a key stopped working, or will; zero if never.
func (k keyRow) endedAt() time.Time {
	if k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && k.ExpiresAt.Before(k.RevokedAt) {
		return k.ExpiresAt
	}
	return k.RevokedAt
}

// change is the row that stores the key. It goes when nobody wants to see
// it any more: a login token, revoked or not, soon after it has expired,
// a key some time after its end.
func (k keyRow) change() change {
	c := change{key: keyKey(k.Account, k.ID), value: encodeKey(k)}
	if k.Kind == token.Login && !k.ExpiresAt.IsZero() {
		c.expires = k.ExpiresAt.Add(clockAhead)
	} else if ended := k.endedAt(); !ended.IsZero() {
		c.expires = ended.Add(store.RevokedFor)
	}
	return c
}

// admit lets a live key's token in from now on.
func (s *Store) admit(k keyRow) {
	s.ledger.PutToken(&ledger.Token{
		Hash: k.hash, Account: k.Account, ID: k.ID, Name: k.Name,
		Abilities: joinAbilities(k.Abilities), ExpiresAt: k.ExpiresAt,
	})
}

// Key implements store.Keys.
func (s *Store) Key(_ context.Context, account, id string) (store.Key, error) {
	var k keyRow
	err := s.ledger.Use(func() (err error) {
		k, err = s.key(account, id)
		return err
	})
	return k.Key, err
}

func (s *Store) key(account, id string) (keyRow, error) {
	var k keyRow
	key := keyKey(account, id)
	err := s.archive.get(key, func(value []byte) (err error) {
		k, err = decodeKey(key, value)
		return err
	})
	if err == nil {
		k.LastUsedAt, err = s.lastUsed(id)
	}
	return k, err
}

// lastUsed is kept apart from the key, so that writing it behind cannot
// bring back a key that was revoked meanwhile.
func (s *Store) lastUsed(id string) (at time.Time, err error) {
	err = s.archive.get(usedKey(id), func(value []byte) error {
		d := newDecoder(value)
		at = d.time()
		return d.end()
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return at, err
}

// ListKeys implements store.Keys.
func (s *Store) ListKeys(_ context.Context, account string) ([]store.Key, error) {
	var list []store.Key
	err := s.ledger.Use(func() error {
		rows, err := s.keys(account)
		if err != nil {
			return err
		}
		for _, k := range rows {
			if k.LastUsedAt, err = s.lastUsed(k.ID); err != nil {
				return err
			}
			list = append(list, k.Key)
		}
		return nil
	})
	slices.SortFunc(list, byAge)
	return list, err
}

// byAge sorts the oldest key first.
func byAge(a, b store.Key) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

func (s *Store) keys(account string) ([]keyRow, error) {
	var list []keyRow
	err := s.archive.scan(keysPrefix(account), func(key, value []byte) error {
		k, err := decodeKey(key, value)
		list = append(list, k)
		return err
	})
	return list, err
}

// RevokeKey implements store.Keys. A key that is revoked already is
// written again: whoever did that may have been told that it failed.
func (s *Store) RevokeKey(_ context.Context, account, id string, at time.Time) error {
	return s.alter(account, func() error {
		k, err := s.key(account, id)
		if err != nil {
			return err
		}
		if k.RevokedAt.IsZero() {
			k.RevokedAt = at.UTC()
		}
		return s.archive.writeDurably(func() { s.ledger.RemoveToken(k.hash) }, k.change())
	})
}

// RotateKey implements store.Keys.
func (s *Store) RotateKey(_ context.Context, account, id string, next store.Key, hash token.Hash, oldEnds time.Time) error {
	return s.alter(account, func() error {
		old, err := s.key(account, id)
		if err != nil {
			return err
		}
		if !old.Live(next.CreatedAt) {
			return store.ErrNotFound
		}
		overlap := oldEnds.After(next.CreatedAt)
		leaving, err := s.makeRoom(next, old, overlap)
		if err != nil {
			return err
		}
		switch {
		case !overlap:
			old.RevokedAt = next.CreatedAt.UTC()
		case old.ExpiresAt.IsZero() || oldEnds.Before(old.ExpiresAt):
			old.ExpiresAt = oldEnds.UTC()
		}
		successor := keyRow{Key: next, hash: hash}
		apply := func() {
			s.exclude(leaving.keys)
			if overlap {
				s.admit(old)
			} else {
				s.ledger.RemoveToken(old.hash)
			}
			s.admit(successor)
		}
		return s.archive.writeDurably(apply, append(leaving.changes, old.change(), successor.change())...)
	})
}
