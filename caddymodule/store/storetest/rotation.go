package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// ignore returns err, or nil if err is the expected error.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// successor returns a key that replaces old at now, as it is stored.
func (s *suite) successor(old store.Key, id string) store.Key {
	old.ID, old.Hint, old.CreatedAt, old.Root = id, "tgk_…"+id, s.now, old.CountsAs()
	return old
}

// replace replaces a key. It gives the store other values of the members that
// the store copies from the old key.
func (s *suite) replace(old string, next store.Key, ends time.Time) error {
	s.Helper()
	next.Root, next.Name, next.Abilities, next.ExpiresAt = "key_of_the_caller", "name of the caller", []string{"of the caller"}, s.now
	next.Limits, next.Addresses = s.restrictedKey(next.Account, "").Limits[:1], nil
	returned, err := s.store.RotateKey(s.Context(), next.Account, old, next, hashOf(next.ID), ends)
	if err == nil {
		stored, err := s.store.Key(s.Context(), next.Account, next.ID)
		s.must(err)
		s.wantKey(returned, stored)
	}
	return err
}

// rotate: a rotation without overlap revokes the old key or login token.
func (s *suite) rotate() {
	s.account("acc_1")
	for _, kind := range []token.Kind{token.Key, token.Login} {
		old := s.newKey("acc_1", kind.String())
		old.Kind, old.ExpiresAt = kind, s.now.Add(time.Hour)
		hash := s.create(old)
		next := s.successor(old, "key_next_"+kind.String())
		s.must(s.replace(old.ID, next, s.now))

		s.wantNoGrant("the old "+kind.String(), hash, s.now)
		s.wantGrant(hashOf(next.ID), next, "starter")
		got, err := s.store.Key(s.Context(), "acc_1", old.ID)
		s.must(err)
		old.RevokedAt = s.now
		s.wantKey(got, old)
		got, err = s.store.Key(s.Context(), "acc_1", next.ID)
		s.must(err)
		s.wantKey(got, next)
	}

	// Of concurrent rotations of a key, one succeeds.
	for round := range rounds(20) {
		old := s.newKey("acc_1", fmt.Sprint("concurrent ", round))
		s.create(old)
		var rotated atomic.Int64
		s.together(8, func(i int) error {
			next := s.successor(old, fmt.Sprintf("key_concurrent_%d_%d", round, i))
			err := s.replace(old.ID, next, s.now)
			if err == nil {
				rotated.Add(1)
			}
			return ignore(err, store.ErrNotFound)
		})
		if got := rotated.Load(); got != 1 {
			s.Errorf("%d rotations of one key", got)
		}
	}
}

func (s *suite) rotateWithOverlap() {
	s.account("acc_1")
	old := s.newKey("acc_1", "ci")
	hash := s.create(old)
	ends := s.now.Add(time.Hour)
	next := s.successor(old, "key_2")
	next.CreatedAt = s.now.Add(time.Second)
	s.must(s.replace(old.ID, next, ends))
	s.wantGrant(hash, old, "starter")
	s.wantGrant(hashOf(next.ID), next, "starter")
	s.wantNoGrant("the old key when its overlap ends", hash, ends)
	if _, err := s.store.Grant(s.Context(), hash, ends.Add(-1)); err != nil {
		s.Errorf("grant of the old key just before its overlap ends: %v", err)
	}
	got, err := s.store.Key(s.Context(), "acc_1", old.ID)
	s.must(err)
	old.ExpiresAt = ends
	s.wantKey(got, old)

	// The old key has a successor, so it cannot be rotated again.
	twice := s.successor(old, "key_twice")
	twice.CreatedAt = s.now.Add(2 * time.Second)
	s.wantError("rotation of a key that has a younger successor",
		s.replace(old.ID, twice, ends), store.ErrReplaced)
	s.wantNoGrant("the second successor of a key", hashOf(twice.ID), s.now)

	// The successor can be rotated before the overlap has ended.
	third := s.successor(next, "key_3")
	s.must(s.replace(next.ID, third, ends.Add(time.Hour)))
	s.wantGrant(hash, old, "starter")
	s.wantGrant(hashOf(third.ID), third, "starter")

	// An overlap does not make a key live longer.
	short := s.newKey("acc_1", "short")
	short.ExpiresAt = s.now.Add(time.Minute)
	shortHash := s.create(short)
	next = s.successor(short, "key_short_2")
	s.must(s.replace(short.ID, next, ends))
	s.wantNoGrant("an old key at its own expiry", shortHash, short.ExpiresAt)
	got, err = s.store.Key(s.Context(), "acc_1", short.ID)
	s.must(err)
	s.wantKey(got, short)
}

// rotateDuringChange: a change of the old key is in its successor, or fails.
func (s *suite) rotateDuringChange() {
	s.account("acc_1")
	addresses := s.restrictedKey("acc_1", "").Addresses
	for round := range rounds(100) {
		key := s.newKey("acc_1", fmt.Sprint(round))
		s.create(key)
		next := s.successor(key, fmt.Sprint("key_next_", round))
		changed := false
		s.together(2, func(i int) error {
			if i == 0 {
				return s.replace(key.ID, next, s.now)
			}
			_, err := s.store.ChangeKey(s.Context(), "acc_1", key.ID, s.now, func(k *store.Key) error {
				k.Addresses = addresses
				return nil
			})
			changed = err == nil
			return ignore(err, store.ErrNotFound)
		})
		if changed {
			next.Addresses = addresses
		}
		got, err := s.store.Key(s.Context(), "acc_1", next.ID)
		s.must(err)
		s.wantKey(got, next)
		s.wantGrant(hashOf(next.ID), next, "starter")
	}
}
