package storetest

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// restrictedKey returns a key with limits and addresses of its own.
func (s *suite) restrictedKey(account, name string) store.Key {
	key := s.newKey(account, name)
	key.Limits = []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: 100, OfKey: true},
		{Endpoint: store.All, Period: store.Month, Max: store.Unlimited, OfKey: true},
		{Endpoint: "convert", Period: store.Second, Max: 1, OfKey: true},
	}
	key.Addresses = []netip.Prefix{
		netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::1/128"), netip.MustParsePrefix("0.0.0.0/0"),
	}
	return key
}

// changeKey changes a key that must be there.
func (s *suite) changeKey(key store.Key, change func(*store.Key)) store.Key {
	s.Helper()
	got, err := s.store.ChangeKey(s.Context(), key.Account, key.ID, s.now, func(k *store.Key) error {
		change(k)
		return nil
	})
	s.must(err)
	return got
}

// keyChanges: each change is in force for the next Grant, and kept.
func (s *suite) keyChanges() {
	s.account("acc_1")
	key := s.newKey("acc_1", "ci")
	key.ExpiresAt = s.now.Add(time.Hour)
	hash := s.create(key)
	restricted := s.restrictedKey("acc_1", "restricted")
	s.wantGrant(s.create(restricted), restricted, "starter")
	changes := []struct {
		name   string
		change func(*store.Key)
	}{
		{"name", func(k *store.Key) { k.Name = "another name" }},
		{"abilities", func(k *store.Key) { k.Abilities = []string{"batch", "rates"} }},
		{"no abilities", func(k *store.Key) { k.Abilities = nil }},
		{"a later end", func(k *store.Key) { k.ExpiresAt = s.now.Add(48 * time.Hour) }},
		{"no end", func(k *store.Key) { k.ExpiresAt = time.Time{} }},
		{"an earlier end", func(k *store.Key) { k.ExpiresAt = s.now.Add(time.Minute) }},
		{"limits", func(k *store.Key) { k.Limits = restricted.Limits }},
		{"one limit less", func(k *store.Key) { k.Limits = k.Limits[1:] }},
		{"addresses", func(k *store.Key) { k.Addresses = restricted.Addresses }},
		{"no limits", func(k *store.Key) { k.Limits = nil }},
		{"no addresses", func(k *store.Key) { k.Addresses = nil }},
		{"nothing", func(*store.Key) {}},
	}
	check := func(what string) {
		s.Helper()
		got, err := s.store.Key(s.Context(), "acc_1", key.ID)
		s.must(err)
		s.wantKey(got, key)
		s.wantGrant(hash, key, "starter")
		if !key.ExpiresAt.IsZero() {
			s.wantNoGrant("a key at its end after a change of "+what, hash, key.ExpiresAt)
			key.ExpiresAt = key.ExpiresAt.UTC()
		} else if _, err := s.store.Grant(s.Context(), hash, s.now.Add(1000*time.Hour)); err != nil {
			s.Errorf("grant of a key without end after a change of %s: %v", what, err)
		}
	}
	for _, test := range changes {
		test.change(&key)
		s.wantKey(s.changeKey(key, test.change), key)
		check(test.name)
	}
	key.Name, key.Limits, key.Addresses = "last", restricted.Limits, restricted.Addresses
	s.changeKey(key, func(k *store.Key) { k.Name, k.Limits, k.Addresses = key.Name, key.Limits, key.Addresses })
	for range 2 {
		s.restart()
		check("all of them")
		s.wantGrant(hashOf(restricted.ID), restricted, "starter")
	}

	// A change can end a key.
	s.changeKey(key, func(k *store.Key) { k.ExpiresAt = s.now })
	s.wantNoGrant("a key that a change has ended", hash, s.now)
}

// keyChangeKeeps: a change that fails changes nothing, and some members
// never change.
func (s *suite) keyChangeKeeps() {
	s.account("acc_1")
	key := s.restrictedKey("acc_1", "ci")
	hash := s.create(key)
	next := s.successor(key, "key_next")
	s.must(s.replace(key.ID, next, s.now))
	s.wantNoGrant("the rotated key", hash, s.now)
	spoil := func(k *store.Key) {
		k.Abilities[0], k.Limits[0].Max, k.Addresses[0] = "spoiled", 1, netip.MustParsePrefix("192.0.2.0/24")
	}
	errAborted := errors.New("aborted")
	_, err := s.store.ChangeKey(s.Context(), "acc_1", next.ID, s.now, func(k *store.Key) error {
		s.wantKey(*k, next)
		spoil(k)
		k.Name, k.ExpiresAt = "spoiled", s.now
		return errAborted
	})
	if err != errAborted { // it must be the same error
		s.Errorf("an aborted change: got error %v", err)
	}
	s.wantGrant(hashOf(next.ID), next, "starter")

	got := s.changeKey(next, func(k *store.Key) {
		*k = store.Key{
			ID: key.ID, Account: "acc_2", Kind: token.Login, Name: k.Name, Abilities: k.Abilities, Hint: "hint",
			CreatedAt: s.now.Add(-time.Hour), RevokedAt: s.now, LastUsedAt: s.now,
			Limits: k.Limits, Addresses: k.Addresses, Root: "root",
		}
	})
	s.wantKey(got, next)
	if !got.LastUsedAt.IsZero() {
		s.Errorf("a change has set the last use to %v", got.LastUsedAt)
	}
	s.wantGrant(hashOf(next.ID), next, "starter")

	// A grant is not changed after Grant has returned it.
	granted, err := s.store.Grant(s.Context(), hashOf(next.ID), s.now)
	s.must(err)
	s.changeKey(next, spoil)
	if !same(*granted.Restriction, *next.Restriction()) {
		s.Errorf("a change of the key has changed an earlier grant: %+v", *granted.Restriction)
	}
}

// keyChangeRefusals: keys that are not live do not change and are not rotated,
// and a name is that of one live key.
func (s *suite) keyChangeRefusals() {
	s.account("acc_1", "acc_2")
	key, taken, revoked, expired := s.newKey("acc_1", "ci"), s.newKey("acc_1", "taken"),
		s.newKey("acc_1", "revoked"), s.newKey("acc_1", "expired")
	expired.CreatedAt, expired.ExpiresAt = s.now.Add(-time.Hour), s.now
	login := s.newLogin("acc_1", 1)
	login.Name = "of a login"
	for _, k := range []store.Key{key, taken, revoked, expired, login} {
		s.create(k)
	}
	s.must(s.store.RevokeKey(s.Context(), "acc_1", revoked.ID, s.now))
	tests := []struct {
		name, account, id, newName string
		want                       error
	}{
		{"an unknown key", "acc_1", "key_unknown", "x", store.ErrNotFound},
		{"another account's key", "acc_2", key.ID, "x", store.ErrNotFound},
		{"a key of an unknown account", "acc_unknown", key.ID, "x", store.ErrNotFound},
		{"a revoked key", "acc_1", revoked.ID, "x", store.ErrNotFound},
		{"an expired key", "acc_1", expired.ID, "x", store.ErrNotFound},
		{"a name that is taken", "acc_1", key.ID, "taken", store.ErrNameTaken},
		{"the name of a revoked key", "acc_1", key.ID, "revoked", nil},
		{"the name of an expired key", "acc_1", key.ID, "expired", nil},
		{"the name of a login token", "acc_1", key.ID, "of a login", nil},
		{"a login token", "acc_1", login.ID, "taken", nil},
	}
	for _, test := range tests {
		before, _ := s.store.Key(s.Context(), test.account, test.id) // no key for some tests
		_, err := s.store.ChangeKey(s.Context(), test.account, test.id, s.now, func(k *store.Key) error {
			k.Name, k.ExpiresAt = test.newName, time.Time{}
			return nil
		})
		s.wantError(test.name, err, test.want)
		after, _ := s.store.Key(s.Context(), test.account, test.id)
		if test.want != nil && !same(before, after) {
			s.Errorf("%s: the key has changed to %+v", test.name, after)
		}
		if next := s.newKey(test.account, "next"); errors.Is(test.want, store.ErrNotFound) {
			s.wantError("rotation of "+test.name, s.replace(test.id, next, s.now), store.ErrNotFound)
			s.wantNoGrant("the successor of "+test.name, hashOf(next.ID), s.now)
		}
	}
	s.wantNoGrant("a revoked key", hashOf(revoked.ID), s.now)
	s.wantNoGrant("an expired key", hashOf(expired.ID), s.now)
	key.Name = "of a login"
	s.wantGrant(hashOf(key.ID), key, "starter")

	// During an overlap two keys have one name. Each can be changed without
	// a new name. A successor with a new name is still the successor.
	next := s.successor(key, "key_next")
	next.CreatedAt = s.now.Add(time.Second)
	ends := s.now.Add(time.Hour)
	s.must(s.replace(key.ID, next, ends))
	for _, k := range []store.Key{key, next} {
		s.changeKey(k, func(k *store.Key) { k.Abilities = []string{"rates"} })
	}
	s.changeKey(next, func(k *store.Key) { k.Name = "renamed" })
	twice := s.successor(key, "key_twice")
	twice.CreatedAt = s.now.Add(2 * time.Second)
	s.wantError("rotation of a key whose successor has a new name",
		s.replace(key.ID, twice, ends), store.ErrReplaced)

	// Of concurrent changes to one name, one succeeds.
	for round := range rounds(20) {
		var changed atomic.Int64
		for i := range 8 {
			s.create(s.newKey("acc_2", fmt.Sprintf("%d-%d", round, i)))
		}
		s.together(8, func(i int) error {
			_, err := s.store.ChangeKey(s.Context(), "acc_2", fmt.Sprintf("key_acc_2_%d-%d", round, i), s.now, func(k *store.Key) error {
				k.Name = fmt.Sprint("shared ", round)
				return nil
			})
			if err == nil {
				changed.Add(1)
			}
			return ignore(err, store.ErrNameTaken)
		})
		if got := changed.Load(); got != 1 {
			s.Errorf("%d keys have one name", got)
		}
	}
}

// replacedKeyChanges: the end of an overlap cannot be moved while the
// successor is live, so that no two live keys share a name for ever.
func (s *suite) replacedKeyChanges() {
	s.account("acc_1")
	first := s.newKey("acc_1", "ci")
	hash := s.create(first)
	second, third := s.successor(first, "key_second"), s.successor(first, "key_third")
	second.CreatedAt, third.CreatedAt = s.now.Add(time.Second), s.now.Add(2*time.Second)
	first.ExpiresAt, second.ExpiresAt = s.now.Add(time.Hour), s.now.Add(2*time.Hour)
	s.must(s.replace(first.ID, second, first.ExpiresAt))
	s.must(s.replace(second.ID, third, second.ExpiresAt))

	refused := func(what string, key store.Key, ends time.Time) {
		s.Helper()
		_, err := s.store.ChangeKey(s.Context(), "acc_1", key.ID, s.now, func(k *store.Key) error {
			k.Name, k.ExpiresAt = "renamed", ends
			return nil
		})
		s.wantError(what, err, store.ErrReplaced)
		got, err := s.store.Key(s.Context(), "acc_1", key.ID)
		s.must(err)
		s.wantKey(got, key)
		s.wantNoGrant(what, hashOf(key.ID), key.ExpiresAt)
	}
	refused("no end of a replaced key", first, time.Time{})
	refused("a later end of a replaced key", first, first.ExpiresAt.Add(1))
	refused("no end of a replacement that is replaced", second, time.Time{})

	// The successor of a key with another name replaces it, too.
	s.changeKey(third, func(k *store.Key) { k.Name = "another" })
	refused("no end of a key whose successor has a new name", second, time.Time{})

	for _, change := range []func(*store.Key){
		func(k *store.Key) { k.Abilities = []string{"rates"} },
		func(k *store.Key) { k.ExpiresAt = s.now.Add(time.Minute) },
		func(k *store.Key) { k.Name = "old" },
	} {
		change(&first)
		s.wantKey(s.changeKey(first, change), first)
	}
	s.wantGrant(hash, first, "starter")
	s.changeKey(third, func(k *store.Key) { k.ExpiresAt = s.now.Add(3 * time.Hour) })
	s.changeKey(third, func(k *store.Key) { k.ExpiresAt = time.Time{} })

	// A successor that ended replaces no key.
	s.must(s.store.RevokeKey(s.Context(), "acc_1", third.ID, s.now))
	s.changeKey(second, func(k *store.Key) { k.ExpiresAt = time.Time{} })
	s.restart()
	second.ExpiresAt = time.Time{}
	s.wantGrant(hashOf(second.ID), second, "starter")
	refused("no end of a key after a restart", first, time.Time{})
}

// keyChangesUnderLoad: a change never makes a revoked key valid again, and
// concurrent changes do not overwrite each other.
func (s *suite) keyChangesUnderLoad() {
	const writers = 4
	s.account("acc_1")
	for round := range rounds(30) {
		key := s.newKey("acc_1", fmt.Sprint(round))
		hash := s.create(key)
		var revoked atomic.Bool
		s.together(writers+1, func(i int) error {
			if i == 0 {
				err := s.store.RevokeKey(s.Context(), "acc_1", key.ID, s.now)
				revoked.Store(true)
				return err
			}
			for n := 0; ; n++ {
				before := revoked.Load()
				_, err := s.store.ChangeKey(s.Context(), "acc_1", key.ID, s.now, func(k *store.Key) error {
					k.ExpiresAt = s.now.Add(time.Duration(n+1) * time.Hour)
					return nil
				})
				if before && err == nil {
					return fmt.Errorf("round %d: a revoked key was changed", round)
				}
				if _, granted := s.store.Grant(s.Context(), hash, s.now); before && granted == nil {
					return fmt.Errorf("round %d: a revoked key was granted", round)
				}
				if err != nil {
					return ignore(err, store.ErrNotFound)
				}
			}
		})
		s.wantNoGrant("a revoked key", hash, s.now)
		other := s.newKey("acc_1", fmt.Sprint("other ", round))
		s.create(other)
		s.together(writers, func(i int) error {
			_, err := s.store.ChangeKey(s.Context(), "acc_1", other.ID, s.now, func(k *store.Key) error {
				k.Limits = append(k.Limits, store.Limit{Endpoint: fmt.Sprint("e", i), Period: store.Day, Max: 1, OfKey: true})
				return nil
			})
			return err
		})
		got, err := s.store.Key(s.Context(), "acc_1", other.ID)
		if s.must(err); len(got.Limits) != writers {
			s.Errorf("round %d: got limits %+v, want %d", round, got.Limits, writers)
		}
	}
}
