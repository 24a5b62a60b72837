package storetest

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

func (s *suite) grant() {
	s.account("acc_1", "acc_2")
	s.wantNoGrant("an unknown token", hashOf("unknown"), s.now)

	first := s.newKey("acc_1", "first")
	bare := s.newKey("acc_1", "bare")
	bare.Abilities = nil
	login := s.newKey("acc_2", "login")
	login.Kind, login.ExpiresAt = token.Login, s.now.Add(24*time.Hour)
	for _, key := range []store.Key{first, bare, login} {
		s.wantGrant(s.create(key), key, "starter")
	}

	// Hashes that differ in one bit are different tokens.
	for _, i := range []int{0, 7, 8, 31} {
		near := hashOf(first.ID)
		near[i] ^= 1
		s.wantNoGrant("a hash that differs in one bit", near, s.now)
	}

	_, err := PutAccount(s.Context(), s.store.Book, store.Account{ID: "acc_1", Plan: "business", CreatedAt: s.now})
	s.must(err)
	s.wantGrant(hashOf(first.ID), first, "business")
	s.wantGrant(hashOf(login.ID), login, "starter")
	s.disable("acc_1", true)
	s.wantNoGrant("a disabled account's token", hashOf(first.ID), s.now)
	s.wantGrant(hashOf(login.ID), login, "starter")
	s.disable("acc_1", false)
	s.wantGrant(hashOf(first.ID), first, "business")
}

// grantExpires: a token is valid until a nanosecond before its expiry.
func (s *suite) grantExpires() {
	s.account("acc_1")
	key := s.newKey("acc_1", "short")
	key.ExpiresAt = s.now.Add(time.Hour + 123456789*time.Nanosecond)
	hash := s.create(key)
	s.wantGrant(hash, key, "starter")
	if _, err := s.store.Grant(s.Context(), hash, key.ExpiresAt.Add(-1)); err != nil {
		s.Errorf("grant a nanosecond before its expiry: %v", err)
	}
	s.wantNoGrant("a token at its expiry", hash, key.ExpiresAt)
	s.wantNoGrant("an expired token", hash, key.ExpiresAt.Add(time.Hour))
	s.wantGrant(hash, key, "starter") // the clock was corrected
}

// grantEnded: a store tells why a token grants nothing, also after a restart, as
// long as it knows the token.
func (s *suite) grantEnded() {
	s.account("acc_1", "acc_2")
	revoked, login, short, disabled := s.newKey("acc_1", "revoked"), s.newLogin("acc_1", 1), s.newKey("acc_1", "short"), s.newKey("acc_2", "disabled")
	short.ExpiresAt = s.now.Add(time.Minute)
	limited := s.newKey("acc_1", "limited")
	limited.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	gone := s.newKey("acc_2", "gone")
	limited.ExpiresAt, gone.ExpiresAt = short.ExpiresAt, short.ExpiresAt
	for _, key := range []store.Key{revoked, login, short, disabled, limited, gone} {
		s.create(key)
	}
	s.wantGrant(hashOf(revoked.ID), revoked, "starter") // a store can have it in a cache
	for _, key := range []store.Key{revoked, login, limited} {
		s.must(s.store.RevokeKey(s.Context(), "acc_1", key.ID, s.now))
	}
	s.disable("acc_2", true)
	want := func() {
		s.Helper()
		for _, key := range []store.Key{revoked, login, limited} {
			s.wantEnded(key, hashOf(key.ID), s.now, store.Revoked)
			s.wantEnded(key, hashOf(key.ID), s.now.Add(-time.Hour), store.Revoked)
			s.wantHolder("a revoked token", hashOf(key.ID), s.now, "")
		}
		s.wantEnded(short, hashOf(short.ID), short.ExpiresAt, store.Expired)
		s.wantEnded(disabled, hashOf(disabled.ID), s.now, store.Disabled)
		// Of several reasons, the first one counts.
		s.wantEnded(limited, hashOf(limited.ID), limited.ExpiresAt, store.Revoked)
		s.wantEnded(gone, hashOf(gone.ID), gone.ExpiresAt, store.Expired)
	}
	want()
	totals, err := s.store.Totals(s.Context())
	if err != nil || totals.LiveKeys != 3 {
		s.Errorf("got %+v, %v, want 3 live keys", totals, err)
	}
	s.restart()
	want()
	s.must(s.store.RevokeKey(s.Context(), "acc_2", disabled.ID, s.now))
	s.wantEnded(disabled, hashOf(disabled.ID), s.now, store.Revoked)
	s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	if got, err := s.store.Grant(s.Context(), hashOf(revoked.ID), s.now); store.WhyNoGrant(err) != "" || !errors.Is(err, store.ErrNoGrant) {
		s.Errorf("a deleted account: got %+v, %v", got, err)
	}
	s.restart()
	s.wantEnded(disabled, hashOf(disabled.ID), s.now, store.Revoked)
}

// grantAccount: an account without a token has the grant of its tokens, but no
// key. Its calls count together with theirs.
func (s *suite) grantAccount() {
	want := func(what string, fresh bool, plan string, wanted error) store.Grant {
		s.Helper()
		got, err := s.store.GrantAccount(s.Context(), "acc_1", fresh)
		switch {
		case wanted != nil:
			s.wantError(what, err, wanted)
		case err != nil || got.Account != "acc_1" || got.Plan != plan || got.Key+got.KeyName+got.Abilities != "" || got.Cached && fresh:
			s.Errorf("%s: got %+v, %v, want plan %s without a key", what, got, err, plan)
		}
		return got
	}
	want("an unknown account", false, "", store.ErrNotFound)
	s.account("acc_1")
	before := want("a new account", false, "starter", nil)
	hash := s.create(s.newKey("acc_1", "ci"))
	byToken, err := s.store.Confirm(s.Context(), hash, s.now)
	s.must(err)
	granted := want("beside a key", true, "starter", nil)
	if granted.Handle != byToken.Handle || granted.Handle != before.Handle || granted.Version != byToken.Version {
		s.Errorf("got %+v, want handle and version of %+v", granted, byToken)
	}
	call := s.call("acc_1", "convert")
	call.Handle, call.Version = granted.Handle, granted.Version
	s.take(call, 10, 1, true)
	s.take(s.call("acc_1", "convert"), 10, 2, true)
	s.store.Record(store.Record{Account: "acc_1", At: s.now, Endpoint: "convert", Handle: granted.Handle})
	if recent, err := s.store.Recent(s.Context(), "acc_1", s.now); err != nil || len(recent) != 1 || recent[0].Key != "" {
		s.Errorf("recent calls: got %+v, %v, want one without a key", recent, err)
	}

	for _, plan := range []string{"business", "starter"} {
		_, err := PutAccount(s.Context(), s.store.Book, store.Account{ID: "acc_1", Plan: plan})
		s.must(err)
		want("after a change", false, plan, nil)
		want("after a change, fresh", true, plan, nil)
	}
	_, err = PutAccount(s.Context(), s.store.Book, store.Account{ID: "acc_1", Plan: "starter", Disabled: true})
	s.must(err)
	want("a disabled account", false, "", store.ErrNoGrant)
	s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	want("a deleted account", false, "", store.ErrNotFound)
	if _, err := s.store.Take(s.Context(), call, nil, nil); call.Handle != 0 {
		s.wantError("a call with the grant of the deleted account", err, store.ErrNoGrant)
	}
	s.restart()
	want("a deleted account after a restart", false, "", store.ErrNotFound)
	s.account("acc_1")
	s.restart()
	want("an account after a restart", false, "starter", nil)
}

// confirm: Confirm returns what is true now. A call with a grant from before a
// change is refused with ErrChanged, or decided by the new state.
func (s *suite) confirm() {
	s.account("acc_1")
	key := s.newKey("acc_1", "ci")
	hash := s.create(key)
	for _, plan := range []string{"business", "starter"} {
		before, err := s.store.Grant(s.Context(), hash, s.now)
		s.must(err)
		_, err = PutAccount(s.Context(), s.store.Book, store.Account{ID: "acc_1", Plan: plan})
		s.must(err)
		call := s.call("acc_1", "convert")
		call.Handle, call.Version = before.Handle, before.Version
		admitted, err := s.store.Take(s.Context(), call, nil, nil)
		if before.Version == 0 && (err != nil || !admitted) {
			s.Errorf("without versions: got %v, %v", admitted, err)
		}
		if before.Version != 0 {
			s.wantError("a call with a grant from before a change", err, store.ErrChanged)
			s.wantError("its rooms", s.store.Rooms(s.Context(), call, nil, nil), store.ErrChanged)
		}
		confirmed, err := s.store.Confirm(s.Context(), hash, s.now)
		if err != nil || confirmed.Plan != plan || confirmed.Cached || confirmed.Handle != before.Handle {
			s.Errorf("confirmed: got %+v, %v, want plan %s and the handle of %+v", confirmed, err, plan, before)
		}
		call.Version = confirmed.Version
		admitted, err = s.store.Take(s.Context(), call, nil, nil)
		if err != nil || !admitted {
			s.Errorf("a call with a confirmed grant: got %v, %v", admitted, err)
		}
	}
	s.must(s.store.RevokeKey(s.Context(), "acc_1", key.ID, s.now))
	_, err := s.store.Confirm(s.Context(), hash, s.now)
	s.wantError("confirming a revoked key", err, store.ErrNoGrant)
	_, err = s.store.Confirm(s.Context(), hashOf("another"), s.now)
	s.wantError("confirming an unknown token", err, store.ErrNoGrant)
}

// deletedAccount: the tokens, counts and recent calls of a deleted account
// are not those of the next account with its id, also after a restart.
func (s *suite) deletedAccount() {
	s.account("acc_1", "acc_10")
	key, other := s.newKey("acc_1", "ci"), s.newKey("acc_10", "ci")
	hash, otherHash := s.create(key), s.create(other)
	grant, err := s.store.Grant(s.Context(), hash, s.now)
	s.must(err)
	s.take(s.call("acc_1", "convert"), 10, 1, true)
	s.take(s.call("acc_10", "convert"), 10, 1, true)
	s.store.Record(store.Record{Account: "acc_1", Key: key.ID, At: s.now, Endpoint: "convert"})

	s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	s.wantNoGrant("a deleted account's token", hash, s.now)
	s.wantError("deleting again", s.store.DeleteAccount(s.Context(), "acc_1"), store.ErrNotFound)
	_, err = s.store.Account(s.Context(), "acc_1")
	s.wantError("a deleted account", err, store.ErrNotFound)

	check := func() {
		s.Helper()
		s.account("acc_1")
		s.wantNoGrant("the deleted account's token", hash, s.now)
		keys, err := s.store.ListKeys(s.Context(), "acc_1")
		s.must(err)
		recent, err := s.store.Recent(s.Context(), "acc_1", s.now)
		s.must(err)
		if len(keys) > 0 || len(recent) > 0 {
			s.Errorf("the new account has keys %v or calls %v of the deleted one", keys, recent)
		}
		s.wantUsed(s.call("acc_1", "convert"), 0)
		s.wantGrant(otherHash, other, "starter")
		s.wantUsed(s.call("acc_10", "convert"), 1)
	}
	check()
	if late := s.call("acc_1", "convert"); grant.Handle != 0 {
		late.Handle = grant.Handle
		_, err := s.store.Take(s.Context(), late, nil, nil)
		s.wantError("a call with the grant of the deleted account", err, store.ErrNoGrant)
		s.take(s.call("acc_1", "convert"), 10, 1, true)
		s.must(s.store.Settle(s.Context(), late, nil, nil, 0, false)) // changes nothing
		s.wantUsed(late, 1)
		s.must(s.store.Settle(s.Context(), s.call("acc_1", "convert"), nil, nil, 0, false))
	}
	s.restart()
	check()
	s.take(s.call("acc_1", "convert"), 10, 1, true)
}

// deletedUnderLoad: a call that is in flight while its account is deleted
// does not count on the next account with that id.
func (s *suite) deletedUnderLoad() {
	const callers = 4
	call := s.call("acc_1", "convert")
	for round := range rounds(20) {
		s.account("acc_1")
		hash := s.create(s.newKey("acc_1", fmt.Sprint("key_", round)))
		grant, err := s.store.Grant(s.Context(), hash, s.now)
		s.must(err)
		deleting, deleted := make(chan error, 1), make(chan struct{})
		granted := call
		granted.Handle = grant.Handle
		s.together(callers, func(i int) error {
			for n := 0; ; n++ {
				if i == 0 && n == 5 {
					go func() {
						defer close(deleted)
						deleting <- s.store.DeleteAccount(s.Context(), "acc_1")
					}()
				}
				late := false
				select {
				case <-deleted:
					late = true
				default:
				}
				admitted, err := s.store.Take(s.Context(), granted, nil, nil)
				switch {
				case errors.Is(err, store.ErrNoGrant):
					return nil
				case err != nil:
					return err
				case late:
					return fmt.Errorf("after the deletion: admitted %v", admitted)
				}
			}
		})
		s.must(<-deleting)
		s.account("acc_1")
		s.wantUsed(call, 0)
		s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	}
}
