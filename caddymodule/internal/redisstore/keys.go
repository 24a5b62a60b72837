package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// CreateKey implements store.Keys.
func (s *Store) CreateKey(ctx context.Context, key store.Key, hash token.Hash) error {
	return s.change(ctx, key.Account, func(l *loaded) error {
		if !l.exists() {
			return store.ErrNotFound
		}
		if err := l.ring.Create(key); err != nil {
			return err
		}
		l.tokens[key.ID] = hash
		return s.enter(ctx, &key, hash, key.CreatedAt)
	})
}

// CreateKeys implements store.Keys. It creates the keys of several accounts at
// the same time, and those of one account one after the other.
func (s *Store) CreateKeys(ctx context.Context, keys []store.StoredKey) []error {
	errs, ofAccount := make([]error, len(keys)), map[string][]int{}
	for i, key := range keys {
		ofAccount[key.Account] = append(ofAccount[key.Account], i)
	}
	var group errgroup.Group
	group.SetLimit(writers)
	for _, some := range ofAccount {
		group.Go(func() error {
			for _, i := range some {
				errs[i] = s.CreateKey(ctx, keys[i].Key, keys[i].Hash)
			}
			return nil
		})
	}
	_ = group.Wait() // each key has an error of its own
	return errs
}

// RotateKey implements store.Keys.
func (s *Store) RotateKey(ctx context.Context, account, id string, next store.Key, hash token.Hash, oldEnds time.Time) (rotated store.Key, err error) {
	err = s.change(ctx, account, func(l *loaded) error {
		if rotated, err = l.ring.Rotate(id, next, oldEnds); err != nil {
			return err
		}
		l.tokens[next.ID] = hash
		return s.enter(ctx, &rotated, hash, rotated.CreatedAt)
	})
	if err != nil {
		return store.Key{}, err
	}
	return rotated, nil
}

// Key implements store.Keys.
func (s *Store) Key(ctx context.Context, account, id string) (store.Key, error) {
	reply, err := s.client.one(ctx, func(b rueidis.Builder) rueidis.Completed { return s.getKey(b, account, id) })
	if err != nil {
		return store.Key{}, err
	}
	return keyOf(account, id, reply)
}

func (s *Store) getKey(b rueidis.Builder, account, id string) rueidis.Completed {
	return b.Hmget().Key(s.keysKey(account)).Field(keyField(id), useField(id)).Build()
}

// keyOf reads the fields of a key and of its use.
func keyOf(account, id string, reply rueidis.RedisMessage) (store.Key, error) {
	fields, err := reply.AsStrSlice() // a missing field is empty
	if err != nil || len(fields) != 2 {
		return store.Key{}, damaged("key "+id, err)
	}
	if fields[0] == "" {
		return store.Key{}, store.ErrNotFound
	}
	key, _, err := decodeKey(account, id, fields[0])
	if err != nil {
		return store.Key{}, err
	}
	return key, decodeUse(&key, fields[1])
}

// ListKeys implements store.Keys.
func (s *Store) ListKeys(ctx context.Context, account string) (list []store.Key, err error) {
	l, err := s.load(ctx, account)
	if err != nil {
		return nil, err
	}
	for _, k := range l.ring {
		list = append(list, *k)
	}
	return list, nil
}

// ChangeKey implements store.Keys.
func (s *Store) ChangeKey(ctx context.Context, account, id string, at time.Time, change func(*store.Key) error) (changed store.Key, err error) {
	err = s.change(ctx, account, func(l *loaded) error {
		before := l.ring.Find(id)
		if before == nil {
			return store.ErrNotFound
		}
		old := *before
		if changed, err = l.ring.Change(id, at, change); err != nil {
			return err
		}
		if changed.Outlives(&old) {
			err = s.enter(ctx, &changed, l.tokens[id], at)
		}
		if errors.Is(err, store.ErrTokenTaken) {
			return store.ErrNotFound // to the clock of that account, the key has expired
		}
		return err
	})
	if err != nil {
		return store.Key{}, err
	}
	return changed, nil
}

// RevokeKey implements store.Keys.
func (s *Store) RevokeKey(ctx context.Context, account, id string, at time.Time) error {
	return s.change(ctx, account, func(l *loaded) error { return l.ring.Revoke(id, at) })
}

// EndLogins implements store.Keys.
func (s *Store) EndLogins(ctx context.Context, account string, at time.Time) error {
	return s.change(ctx, account, func(l *loaded) error {
		if !l.exists() {
			return store.ErrNotFound
		}
		l.ring.EndLogins(at)
		return nil
	})
}
