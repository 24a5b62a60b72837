package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// CreateKey implements store.Keys.
func (s *Store) CreateKey(_ context.Context, key store.Key, hash token.Hash) error {
	defer s.lock()()
	a := s.find(key.Account, 0)
	if a.ID == "" {
		return store.ErrNotFound
	}
	return s.add(a, key, hash, nil, false)
}

// RotateKey implements store.Keys.
func (s *Store) RotateKey(_ context.Context, account, id string, next store.Key, hash token.Hash, oldEnds time.Time) (store.Key, error) {
	defer s.lock()()
	a := s.find(account, 0)
	old := a.key(id)
	if old == nil || !old.Live(next.CreatedAt) {
		return store.Key{}, store.ErrNotFound
	}
	if a.isReplaced(old, next.CreatedAt) {
		return store.Key{}, store.ErrReplaced
	}
	next.Root, next.Name, next.Abilities, next.ExpiresAt = old.CountsAs(), old.Name, old.Abilities, old.ExpiresAt
	next.Limits, next.Addresses = old.Limits, old.Addresses
	overlap := oldEnds.After(next.CreatedAt)
	if err := s.add(a, next, hash, old, overlap); err != nil {
		return store.Key{}, err
	}
	switch {
	case !overlap:
		old.RevokedAt = next.CreatedAt
	case old.ExpiresAt.IsZero() || oldEnds.Before(old.ExpiresAt):
		old.ExpiresAt = oldEnds
	}
	return next, nil
}

// add stores a key. The key replaces old unless that is nil; with overlap,
// both are live for some time.
func (s *Store) add(a *account, key store.Key, hash token.Hash, old *store.Key, overlap bool) error {
	var others []*store.Key // live, of the same kind, oldest first
	for _, k := range a.keys {
		if k != old && k.Kind == key.Kind && k.Live(key.CreatedAt) {
			others = append(others, k)
		}
	}
	live := len(others)
	if overlap {
		live++
	}
	switch {
	case key.Kind == token.Login:
		for _, k := range others[:max(0, live-store.MaxLiveLogins+1)] {
			k.RevokedAt = key.CreatedAt
		}
	case old == nil && slices.ContainsFunc(others, func(k *store.Key) bool { return k.Name == key.Name }):
		return store.ErrNameTaken
	case live >= store.MaxLiveKeys:
		return store.ErrTooManyKeys
	}
	a.keys = append(a.keys, &key)
	slices.SortFunc(a.keys, func(a, b *store.Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	s.tokens[hash] = &key
	return nil
}

// isReplaced tells whether a key that is live at a time replaces old.
func (a *account) isReplaced(old *store.Key, at time.Time) bool {
	return slices.ContainsFunc(a.keys, func(k *store.Key) bool { return k.Live(at) && k.Replaces(old) })
}

// key returns the key with this id, or nil.
func (a *account) key(id string) *store.Key {
	for _, k := range a.keys {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// Key implements store.Keys.
func (s *Store) Key(_ context.Context, account, id string) (store.Key, error) {
	defer s.lock()()
	k := s.find(account, 0).key(id)
	if k == nil {
		return store.Key{}, store.ErrNotFound
	}
	return *k, nil
}

// ListKeys implements store.Keys.
func (s *Store) ListKeys(_ context.Context, account string) (list []store.Key, err error) {
	defer s.lock()()
	for _, k := range s.find(account, 0).keys {
		list = append(list, *k)
	}
	return list, nil
}

// ChangeKey implements store.Keys.
func (s *Store) ChangeKey(_ context.Context, account, id string, at time.Time, change func(*store.Key) error) (store.Key, error) {
	defer s.lock()()
	a := s.find(account, 0)
	k := a.key(id)
	if k == nil || !k.Live(at) {
		return store.Key{}, store.ErrNotFound
	}
	left := *k
	left.Abilities, left.Limits, left.Addresses = slices.Clone(k.Abilities), slices.Clone(k.Limits), slices.Clone(k.Addresses)
	if err := change(&left); err != nil {
		return store.Key{}, err
	}
	if left.Outlives(k) && a.isReplaced(k, at) {
		return store.Key{}, store.ErrReplaced
	}
	for _, other := range a.keys {
		if k.Kind == token.Key && left.Name != k.Name && other.Kind == token.Key && other.Live(at) && other.Name == left.Name {
			return store.Key{}, store.ErrNameTaken
		}
	}
	k.Name, k.Abilities, k.ExpiresAt = left.Name, left.Abilities, left.ExpiresAt
	k.Limits, k.Addresses = left.Limits, left.Addresses
	return *k, nil
}

// RevokeKey implements store.Keys.
func (s *Store) RevokeKey(_ context.Context, account, id string, at time.Time) error {
	defer s.lock()()
	k := s.find(account, 0).key(id)
	if k == nil {
		return store.ErrNotFound
	}
	if k.RevokedAt.IsZero() {
		k.RevokedAt = at
	}
	return nil
}

// EndLogins implements store.Keys.
func (s *Store) EndLogins(_ context.Context, account string, at time.Time) error {
	defer s.lock()()
	a := s.find(account, 0)
	if a.ID == "" {
		return store.ErrNotFound
	}
	for _, k := range a.keys {
		if k.Kind == token.Login && k.RevokedAt.IsZero() {
			k.RevokedAt = at
		}
	}
	return nil
}
