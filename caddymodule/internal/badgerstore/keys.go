package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// CreateKey implements store.Keys.
func (s *Store) CreateKey(ctx context.Context, key store.Key, hash token.Hash) error {
	return s.CreateKeys(ctx, []store.StoredKey{{Key: key, Hash: hash}})[0]
}

// CreateKeys implements store.Keys. All keys are written at once. Errors of the
// disk are those of all keys that were to be written.
func (s *Store) CreateKeys(_ context.Context, keys []store.StoredKey) []error {
	accounts, errs := make([]string, len(keys)), make([]error, len(keys))
	for i, key := range keys {
		accounts[i] = key.Account
	}
	defer s.lockAll(accounts)()
	err := s.ledger.Use(func() error {
		var changes []change
		var created, ended []keyRow
		rings := map[string][]keyRow{}
		for i, key := range keys {
			k := keyRow{Key: key.Key, hash: key.Hash}
			var ending endedKeys
			if ending, errs[i] = s.tryKey(rings, k); errs[i] == nil {
				changes = append(append(changes, ending.changes...), k.change())
				created, ended = append(created, k), append(ended, ending.keys...)
			}
		}
		defer s.release(created...)
		if len(created) == 0 {
			return nil
		}
		return s.archive.writeDurably(func() {
			s.removeTokens(ended)
			for _, k := range created {
				s.putToken(k)
			}
		}, changes...)
	})
	for i := range errs {
		errs[i] = cmp.Or(errs[i], err)
	}
	return errs
}

// tryKey checks a new key, claims its token, and adds it to the keys of its
// account. It reads the keys of each account once.
func (s *Store) tryKey(rings map[string][]keyRow, k keyRow) (endedKeys, error) {
	ring, isRead := rings[k.Account]
	if !isRead {
		_, err := s.account(k.Account)
		if err == nil {
			ring, err = s.keys(k.Account)
		}
		if err != nil {
			return endedKeys{}, err
		}
	}
	ending, err := s.enforceLimits(k.Key, ring, keyRow{}, false)
	if err == nil {
		err = s.claim(k, k.CreatedAt)
	}
	if err != nil {
		rings[k.Account] = ring
		return endedKeys{}, err
	}
	ring = append(ring, k)
	rings[k.Account] = slices.DeleteFunc(ring, func(other keyRow) bool {
		return slices.ContainsFunc(ending.keys, func(ended keyRow) bool { return ended.ID == other.ID })
	})
	return ending, nil
}

// endedKeys are the keys that end with a write, and its rows for them.
type endedKeys struct {
	changes []change
	keys    []keyRow
}

// enforceLimits checks a new key or login token against the others of its
// kind that the account has, and returns the keys that must end with the
// write.
func (s *Store) enforceLimits(key store.Key, keys []keyRow, replaces keyRow, overlap bool) (endedKeys, error) {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k keyRow) bool { return k.Kind != key.Kind })
	if isReplaced(replaces, keys, key.CreatedAt) {
		return endedKeys{}, store.ErrReplaced
	}
	if key.Kind == token.Login {
		return s.enforceLoginLimit(key, keys, replaces, overlap), nil
	}
	excess, err := checkKey(key, keys, replaces, overlap)
	return endedKeys{deletions(excess), excess}, err
}

// checkKey checks the name of a new key and the number of live keys, and
// returns the ended keys to delete because they are too many. A key that may
// only look expired because the clock is ahead is not deleted.
//
// A new key that replaces another one has its name, also if a predecessor of
// that one is still live. A key that is replaced without overlap does not
// count as live.
func checkKey(key store.Key, keys []keyRow, replaces keyRow, overlap bool) (excess []keyRow, err error) {
	var ended []keyRow
	live := 0
	for _, k := range keys {
		if k.ID == key.ID {
			return nil, store.ErrExists
		}
		if !k.Live(key.CreatedAt.Add(-clockAhead)) {
			ended = append(ended, k)
		}
		if !k.Live(key.CreatedAt) {
			continue
		}
		live++
		if replaces.ID == "" && k.Name == key.Name {
			return nil, store.ErrNameTaken
		}
	}
	if live >= store.MaxLiveKeys && (replaces.ID == "" || overlap) {
		return nil, store.ErrTooManyKeys
	}
	return tooManyEnded(ended), nil
}

// isReplaced tells whether one of the keys replaces old and is live at a time.
func isReplaced(old keyRow, keys []keyRow, at time.Time) bool {
	return old.ID != "" && slices.ContainsFunc(keys, func(k keyRow) bool { return k.Live(at) && k.Replaces(&old.Key) })
}

// tooManyEnded returns the ended keys of an account that exceed
// store.MaxEndedKeys, those that ended first. It returns at most
// maxDeletions of them; later calls return the rest.
func tooManyEnded(ended []keyRow) []keyRow {
	if len(ended) <= store.MaxEndedKeys {
		return nil
	}
	slices.SortFunc(ended, func(a, b keyRow) int { return a.EndedAt().Compare(b.EndedAt()) })
	return ended[:min(len(ended)-store.MaxEndedKeys, maxDeletions)]
}

// maxDeletions is how many keys are deleted with one write. Their rows are
// at most 400 KiB, a third of a transaction.
const maxDeletions = 2000

// deletions returns the rows that delete keys.
func deletions(keys []keyRow) (changes []change) {
	for _, k := range keys {
		changes = append(changes, change{key: keyKey(k.Account, k.ID)}, change{key: usedKey(k.ID)})
	}
	return changes
}

// change is the row that stores the key. The row of a login token expires
// soon after the token, the row of a key store.RevokedFor after it ended.
func (k keyRow) change() change {
	c := change{key: keyKey(k.Account, k.ID), value: encodeKey(k)}
	if k.Kind == token.Login && !k.ExpiresAt.IsZero() {
		c.expires = k.ExpiresAt.Add(clockAhead)
	} else if ended := k.EndedAt(); !ended.IsZero() {
		c.expires = ended.Add(store.RevokedFor)
	}
	return c
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
		err = s.readLastUse(&k.Key)
	}
	return k, err
}

// readLastUse sets the last use of a key. It has a row of its own: if the
// background wrote it into the row of the key, it could bring back a key that
// was revoked meanwhile.
func (s *Store) readLastUse(k *store.Key) error {
	use, err := s.lastUse(k.ID)
	k.LastUsedAt, k.LastUsedFrom = use.at, use.from
	return err
}

// lastUse returns the stored last use of a key, the zero keyUse if it has none.
func (s *Store) lastUse(id string) (use keyUse, err error) {
	err = s.archive.get(usedKey(id), func(value []byte) (err error) {
		use, err = decodeUse(id, value)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return use, err
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
			if err := s.readLastUse(&k.Key); err != nil {
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

// ChangeKey implements store.Keys.
func (s *Store) ChangeKey(_ context.Context, account, id string, at time.Time, edit func(*store.Key) error) (store.Key, error) {
	var k keyRow
	err := s.alter(account, func() (err error) {
		if k, err = s.key(account, id); err != nil {
			return err
		}
		if err := s.claimLive(k, at); err != nil {
			return err
		}
		defer s.release(k)
		left := k.Key
		if err := edit(&left); err != nil {
			return err
		}
		if err := s.checkChange(k, left, at); err != nil {
			return err
		}
		k.Name, k.Abilities, k.ExpiresAt = left.Name, left.Abilities, left.ExpiresAt.UTC()
		k.Limits, k.Addresses = left.Limits, left.Addresses
		return s.archive.writeDurably(func() { s.putToken(k) }, k.change())
	})
	if err != nil {
		return store.Key{}, err
	}
	return k.Key, nil
}

// checkChange checks the new name and the new expiry of a key. A key keeps its
// name, also if it shares it after a rotation.
func (s *Store) checkChange(old keyRow, changed store.Key, at time.Time) error {
	renamed := changed.Name != old.Name && old.Kind == token.Key
	longer := changed.Outlives(&old.Key)
	if !renamed && !longer {
		return nil
	}
	keys, err := s.keys(old.Account)
	switch {
	case err != nil:
		return err
	case longer && isReplaced(old, keys, at):
		return store.ErrReplaced
	case renamed && slices.ContainsFunc(keys, func(k keyRow) bool {
		return k.Kind == token.Key && k.Name == changed.Name && k.Live(at)
	}):
		return store.ErrNameTaken
	}
	return nil
}

// RevokeKey implements store.Keys. It writes a revoked key again: the first
// revocation may have failed after it was written.
func (s *Store) RevokeKey(_ context.Context, account, id string, at time.Time) error {
	return s.alter(account, func() error {
		k, err := s.key(account, id)
		if err != nil {
			return err
		}
		if k.RevokedAt.IsZero() {
			k.RevokedAt = at.UTC()
		}
		return s.archive.writeDurably(func() { s.removeToken(k) }, k.change())
	})
}

// RotateKey implements store.Keys.
func (s *Store) RotateKey(_ context.Context, account, id string, next store.Key, hash token.Hash, oldEnds time.Time) (store.Key, error) {
	err := s.alter(account, func() error {
		old, err := s.key(account, id)
		if err != nil {
			return err
		}
		if err := s.claimLive(old, next.CreatedAt); err != nil {
			return err
		}
		defer s.release(old)
		next.Root, next.Name, next.Abilities, next.ExpiresAt = old.CountsAs(), old.Name, old.Abilities, old.ExpiresAt
		next.Limits, next.Addresses = old.Limits, old.Addresses
		overlap := oldEnds.After(next.CreatedAt)
		keys, err := s.keys(account)
		if err != nil {
			return err
		}
		ending, err := s.enforceLimits(next, keys, old, overlap)
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
			s.removeTokens(ending.keys)
			if overlap {
				s.putToken(old)
			} else {
				s.removeToken(old)
			}
			s.putToken(successor)
		}
		return s.archive.writeDurably(apply, append(ending.changes, old.change(), successor.change())...)
	})
	if err != nil {
		return store.Key{}, err
	}
	return next, nil
}
