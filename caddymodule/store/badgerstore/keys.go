package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// CreateKey implements store.Keys.
func (s *Store) CreateKey(_ context.Context, key store.Key, hash token.Hash) error {
	return s.alter(key.Account, func() error {
		if _, err := s.account(key.Account); err != nil {
			return err
		}
		surplus, err := s.checkKey(key, keyRow{}, false)
		if err != nil {
			return err
		}
		k := keyRow{Key: key, hash: hash}
		if err := s.archive.write(true, append(removal(surplus), k.change())...); err != nil {
			return err
		}
		s.exclude(surplus)
		s.admit(k)
		return nil
	})
}

// checkKey holds a new key against the account's live ones. The key that
// it replaces lends it its name: the one before that may still live for
// its overlap. A younger one of that name has replaced it already, and
// nobody would know which of two successors lasts. One that ends at once
// makes room, also where there are too many. It returns the ended keys
// that are too many: not those that a clock ahead takes for expired.
func (s *Store) checkKey(key store.Key, replaces keyRow, overlap bool) (surplus []keyRow, err error) {
	if key.Kind != token.Key {
		return nil, nil
	}
	keys, err := s.keys(key.Account)
	if err != nil {
		return nil, err
	}
	var ended []keyRow
	live := 0
	for _, k := range keys {
		if k.Kind != token.Key {
			continue
		}
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

// maxRemovals is how many keys are removed with one write, so that they
// fit into one transaction.
const maxRemovals = 256

// removal is what removes keys.
func removal(keys []keyRow) (changes []change) {
	for _, k := range keys {
		changes = append(changes, change{key: keyKey(k.Account, k.ID)}, change{key: usedKey(k.ID)})
	}
	return changes
}

// exclude lets the tokens of keys that are removed in no more: none must
// outlive its row, or nobody could revoke it.
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
	slices.SortFunc(list, func(a, b store.Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, err
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
		if err := s.archive.write(true, k.change()); err != nil {
			return err
		}
		s.ledger.RemoveToken(k.hash)
		return nil
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
		surplus, err := s.checkKey(next, old, overlap)
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
		if err := s.archive.write(true, append(removal(surplus), old.change(), successor.change())...); err != nil {
			return err
		}
		s.exclude(surplus)
		if overlap {
			s.admit(old)
		} else {
			s.ledger.RemoveToken(old.hash)
		}
		s.admit(successor)
		return nil
	})
}
