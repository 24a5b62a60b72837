package memstore

import (
	"context"
	"maps"
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
	if old := s.tokens[hash]; old != nil && old.Account != key.Account && old.Live(key.CreatedAt) {
		return store.ErrTokenTaken
	}
	if err := a.keys.Create(key); err != nil {
		return err
	}
	s.tokens[hash] = a.keys.Find(key.ID)
	return nil
}

// CreateKeys implements store.Keys.
func (s *Store) CreateKeys(ctx context.Context, keys []store.StoredKey) (errs []error) {
	for _, key := range keys {
		errs = append(errs, s.CreateKey(ctx, key.Key, key.Hash))
	}
	return errs
}

// Holder implements store.Keys.
func (s *Store) Holder(_ context.Context, hash token.Hash, at time.Time) (string, error) {
	defer s.lock()()
	k := s.tokens[hash]
	if k == nil || !k.Live(at) {
		return "", store.ErrNotFound
	}
	return k.Account, nil
}

// RotateKey implements store.Keys.
func (s *Store) RotateKey(_ context.Context, account, id string, next store.Key, hash token.Hash, oldEnds time.Time) (store.Key, error) {
	defer s.lock()()
	a := s.find(account, 0)
	rotated, err := a.keys.Rotate(id, next, oldEnds)
	if err == nil {
		s.tokens[hash] = a.keys.Find(next.ID)
	}
	return rotated, err
}

// Key implements store.Keys.
func (s *Store) Key(_ context.Context, account, id string) (store.Key, error) {
	defer s.lock()()
	k := s.find(account, 0).keys.Find(id)
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
	if !slices.Contains(slices.Collect(maps.Values(s.tokens)), a.keys.Find(id)) {
		return store.Key{}, store.ErrNotFound
	}
	return a.keys.Change(id, at, change)
}

// RevokeKey implements store.Keys.
func (s *Store) RevokeKey(_ context.Context, account, id string, at time.Time) error {
	defer s.lock()()
	return s.find(account, 0).keys.Revoke(id, at)
}

// EndLogins implements store.Keys.
func (s *Store) EndLogins(_ context.Context, account string, at time.Time) error {
	defer s.lock()()
	a := s.find(account, 0)
	if a.ID == "" {
		return store.ErrNotFound
	}
	a.keys.EndLogins(at)
	return nil
}
