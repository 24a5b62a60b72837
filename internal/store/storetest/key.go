package storetest

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
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

// newLogin returns a login token. Its id and its token follow from the number.
func (s *suite) newLogin(account string, number int) store.Key {
	login := s.newKey(account, "login")
	login.ID, login.Kind, login.ExpiresAt = fmt.Sprintf("login_%s_%d", account, number), token.Login, s.now.Add(24*time.Hour)
	return login
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

// successor returns a key that replaces old at now, as it is stored.
func (s *suite) successor(old store.Key, id string) store.Key {
	old.ID, old.Hint, old.CreatedAt, old.Root = id, "tgk_…"+id, s.now, old.CountsAs()
	return old
}

func (s *suite) replace(old string, next store.Key, ends time.Time) error {
	_, err := s.store.RotateKey(s.Context(), next.Account, old, next, hashOf(next.ID), ends)
	return err
}

// ignore returns err, or nil if err is the expected error.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// keyChanges: each change is in force for the next Grant, and kept. It does
// not change an earlier grant.
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
		} else if _, err := s.store.Grant(s.Context(), hash, s.now.Add(1000*time.Hour)); err != nil {
			s.Errorf("grant of a key without end after a change of %s: %v", what, err)
		}
	}
	for _, test := range changes {
		test.change(&key)
		s.wantKey(s.changeKey(key, test.change), key)
		check(test.name)
	}
	key.Limits, key.Addresses = restricted.Limits, restricted.Addresses
	s.changeKey(key, func(k *store.Key) { k.Limits, k.Addresses = key.Limits, key.Addresses })
	granted, err := s.store.Grant(s.Context(), hash, s.now)
	s.must(err)
	want := *key.Restriction()
	s.changeKey(key, func(k *store.Key) { k.Limits[0].Max, k.Addresses[0] = 1, netip.MustParsePrefix("192.0.2.0/24") })
	if !same(*granted.Restriction, want) {
		s.Errorf("a change of the key has changed an earlier grant: %+v", *granted.Restriction)
	}
	s.changeKey(key, func(k *store.Key) { k.Limits, k.Addresses = restricted.Limits, restricted.Addresses })
	for range 2 {
		s.restart()
		check("all of them")
		s.wantGrant(hashOf(restricted.ID), restricted, "starter")
	}
}

// endedKeys: of what ends a key, nothing is granted at once and after a
// restart, also in the past, and no later write makes it valid again.
func (s *suite) endedKeys() {
	const logins = store.MaxLiveLogins
	s.account("acc_1", "acc_2")
	revoked, replaced, overlap, shortened, kept := s.newKey("acc_1", "revoked"), s.newKey("acc_1", "replaced"),
		s.newKey("acc_1", "overlap"), s.newKey("acc_1", "shortened"), s.newKey("acc_1", "kept")
	for _, key := range []store.Key{revoked, replaced, overlap, shortened, kept} {
		s.create(key)
	}
	for number := range logins + 1 { // one too many
		s.create(s.newLogin("acc_1", number))
	}
	other := s.newLogin("acc_2", 1)
	s.create(other)
	s.wantNoGrant("the first login token", hashOf(s.newLogin("acc_1", 0).ID), s.now)
	s.wantGrant(hashOf(s.newLogin("acc_1", 1).ID), s.newLogin("acc_1", 1), "starter")

	first, second := s.successor(replaced, "key_first"), s.successor(overlap, "key_second")
	second.CreatedAt = s.now.Add(time.Second)
	s.must(s.store.RevokeKey(s.Context(), "acc_1", revoked.ID, s.now))
	s.must(s.replace(replaced.ID, first, s.now))
	s.must(s.replace(overlap.ID, second, s.now.Add(time.Hour)))
	s.changeKey(shortened, func(k *store.Key) { k.ExpiresAt = s.now })
	s.must(s.store.EndLogins(s.Context(), "acc_1", s.now.Add(25*time.Hour))) // by a clock that is ahead
	late := s.newLogin("acc_1", logins+1)
	s.create(late)
	s.store.Record(store.Record{Account: "acc_1", Key: revoked.ID, At: s.now, Endpoint: "convert"})
	_, err := s.store.Recent(s.Context(), "acc_1", s.now)
	s.must(err)
	s.account("acc_1")
	for range 2 {
		for number := range logins + 1 {
			s.wantNoGrant("an ended login token", hashOf(s.newLogin("acc_1", number).ID), s.now)
		}
		for _, key := range []store.Key{revoked, replaced} {
			s.wantNoGrant(key.ID, hashOf(key.ID), s.now)
			s.wantNoGrant(key.ID, hashOf(key.ID), s.now.Add(-time.Hour))
		}
		s.wantNoGrant("a key that a change has ended", hashOf(shortened.ID), s.now)
		s.wantNoGrant("the old key when its overlap ends", hashOf(overlap.ID), s.now.Add(time.Hour))
		for _, key := range []store.Key{kept, overlap, first, second, late, other} {
			s.wantGrant(hashOf(key.ID), key, "starter")
		}
		s.restart()
	}
	s.wantGrant(hashOf(kept.ID), kept, "starter")
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

// endLoginsUnderLoad: a Grant that begins after EndLogins has returned finds
// no older login token.
func (s *suite) endLoginsUnderLoad() {
	const readers, logins = 4, 5
	s.account("acc_1")
	for round := range rounds(30) {
		login := func(i int) store.Key { return s.newLogin("acc_1", round*logins+i%logins) }
		for i := range logins {
			s.create(login(i))
		}
		var ended atomic.Bool
		s.together(readers+1, func(i int) error {
			if i == 0 {
				err := s.store.EndLogins(s.Context(), "acc_1", s.now)
				ended.Store(true)
				return err
			}
			for {
				before := ended.Load()
				_, err := s.store.Grant(s.Context(), hashOf(login(i).ID), s.now)
				if before && err == nil {
					return fmt.Errorf("round %d: an ended login token was granted", round)
				}
				if err != nil {
					return ignore(err, store.ErrNoGrant)
				}
			}
		})
	}
}
