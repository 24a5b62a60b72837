package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// wantHolder checks which account has a live key with a token, none if it is
// empty.
func (s *suite) wantHolder(what string, hash token.Hash, at time.Time, want string) {
	s.Helper()
	got, err := s.store.Holder(s.Context(), hash, at)
	if want == "" {
		s.wantError(what, err, store.ErrNotFound)
	} else {
		s.must(err)
	}
	if got != want {
		s.Errorf("holder of %s: got %q, want %q", what, got, want)
	}
}

// tokenHolder: a token is a live key of one account, also if that account is
// disabled.
func (s *suite) tokenHolder() {
	s.account("acc_1", "acc_2")
	key := s.newKey("acc_1", "ci")
	key.ExpiresAt = s.now.Add(time.Hour)
	hash := hashOf(key.ID)
	s.wantHolder("an unknown token", hash, s.now, "")
	s.create(key)
	s.wantHolder("a live key", hash, s.now, "acc_1")
	s.wantHolder("an expired key", hash, key.ExpiresAt, "")

	taken := func(what string) {
		s.Helper()
		other := s.newKey("acc_2", "other")
		s.wantError(what, s.store.CreateKey(s.Context(), other, hash), store.ErrTokenTaken)
		free := s.newKey("acc_2", "free "+what)
		batch := []store.StoredKey{{Key: other, Hash: hash}, {Key: free, Hash: hashOf(free.ID)}}
		errs := s.store.ImportKeys(s.Context(), s.now, batch, unrecorded)
		s.wantError(what+" in a batch", errs[0], store.ErrTokenTaken)
		s.must(errs[1])
		if _, err := s.store.Key(s.Context(), "acc_2", other.ID); !errors.Is(err, store.ErrNotFound) {
			s.Errorf("%s: the refused key exists (%v)", what, err)
		}
	}
	taken("the token of a live key")
	s.wantGrant(hash, key, "starter")
	s.disable("acc_1", true)
	s.wantHolder("a key of a disabled account", hash, s.now, "acc_1")
	taken("the token of a disabled account")
	s.disable("acc_1", false)
	s.wantGrant(hash, key, "starter")

	one, two := s.newKey("acc_1", "one"), s.newKey("acc_2", "two")
	errs := s.store.ImportKeys(s.Context(), s.now, []store.StoredKey{{Key: one, Hash: hashOf("both")}, {Key: two, Hash: hashOf("both")}}, unrecorded)
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), store.ErrTokenTaken) {
		s.Errorf("a batch with one token in two accounts: got %v", errs)
	}
}

func (s *suite) disable(account string, disabled bool) {
	s.Helper()
	_, err := s.store.ChangeAccount(s.Context(), account, func(a *store.Account, _ bool) error {
		a.Disabled = disabled
		return nil
	})
	s.must(err)
}

// tokenUnderConcurrency: of creations of keys with one token in several
// accounts, one succeeds, whether the token is new or its key has ended.
func (s *suite) tokenUnderConcurrency() {
	const accounts = 4
	for a := range accounts {
		s.account(fmt.Sprint("acc_", a))
	}
	s.account("acc_old")
	for round := range rounds(40) {
		hash := hashOf(fmt.Sprint("token ", round))
		if round%2 == 1 {
			old := s.newKey("acc_old", fmt.Sprint(round))
			s.must(s.store.CreateKey(s.Context(), old, hash))
			s.must(s.store.RevokeKey(s.Context(), "acc_old", old.ID, s.now))
		}
		var winner atomic.Pointer[store.Key]
		var created atomic.Int64
		s.together(accounts, func(a int) error {
			key := s.newKey(fmt.Sprint("acc_", a), fmt.Sprint(round))
			err := s.store.CreateKey(s.Context(), key, hash)
			if err == nil {
				created.Add(1)
				winner.Store(&key)
			}
			return ignore(err, store.ErrTokenTaken)
		})
		if got := created.Load(); got != 1 {
			s.Fatalf("round %d: %d accounts have the token", round, got)
		}
		s.wantGrant(hash, *winner.Load(), "starter")
		s.wantHolder("the token", hash, s.now, winner.Load().Account)
	}
}

// tokenOfLongerKey: while a key expires, it gets more time or another account
// gets its token, not both.
func (s *suite) tokenOfLongerKey() {
	s.account("acc_1", "acc_2")
	for round := range rounds(40) {
		key, next := s.newKey("acc_1", fmt.Sprint(round)), s.newKey("acc_2", fmt.Sprint(round))
		key.ExpiresAt = s.now.Add(time.Minute)
		next.CreatedAt = key.ExpiresAt
		hash := s.create(key)
		var errs [2]error
		s.together(2, func(i int) error {
			if i == round%2 {
				errs[0] = s.store.CreateKey(s.Context(), next, hash)
				return ignore(errs[0], store.ErrTokenTaken)
			}
			_, errs[1] = s.store.ChangeKey(s.Context(), "acc_1", key.ID, s.now, func(k *store.Key) error {
				k.ExpiresAt = time.Time{}
				return nil
			})
			return ignore(errs[1], store.ErrNotFound)
		})
		if (errs[0] == nil) == (errs[1] == nil) {
			s.Fatalf("round %d: the errors are %v", round, errs)
		}
		want := next
		if errs[1] == nil {
			want = key
		}
		s.wantGrant(hash, want, "starter")
		s.wantHolder("the token", hash, key.ExpiresAt, want.Account)
	}
}

// movedToken: a token can become a key of another account once its key has
// ended. What happens to the old key and its account after that does not end
// the new key.
func (s *suite) movedToken() {
	s.account("acc_new")
	ends := []struct {
		name   string
		change func(old store.Key) error
	}{
		{"unchanged", func(store.Key) error { return nil }},
		{"revoked again", func(old store.Key) error { return s.store.RevokeKey(s.Context(), old.Account, old.ID, s.now) }},
		{"renamed by a clock that is behind", func(old store.Key) error {
			_, err := s.store.ChangeKey(s.Context(), old.Account, old.ID, s.now, func(k *store.Key) error { k.Name = "renamed"; return nil })
			return ignore(err, store.ErrNotFound)
		}},
		{"disabled", func(old store.Key) error { s.disable(old.Account, true); return nil }},
		{"deleted", func(old store.Key) error { return s.store.DeleteAccount(s.Context(), old.Account) }},
	}
	moved := map[token.Hash]store.Key{}
	for _, end := range ends {
		for _, expired := range []bool{false, true} {
			old := s.newKey("acc_"+strings.ReplaceAll(end.name, " ", "_"), fmt.Sprint(expired))
			s.account(old.Account)
			key := s.newKey("acc_new", fmt.Sprint(end.name, " ", expired))
			if expired {
				old.ExpiresAt = s.now.Add(time.Minute)
				key.CreatedAt = old.ExpiresAt
			}
			hash := s.create(old)
			if !expired {
				s.must(s.store.RevokeKey(s.Context(), old.Account, old.ID, s.now))
			}
			s.must(s.store.CreateKey(s.Context(), key, hash))
			s.must(end.change(old))
			moved[hash] = key
			s.wantGrant(hash, key, "starter")
		}
	}
	s.restart()
	for hash, key := range moved {
		s.wantGrant(hash, key, "starter")
		s.wantHolder(key.Name, hash, key.CreatedAt, "acc_new")
	}
	for hash, key := range moved {
		s.must(s.store.RevokeKey(s.Context(), "acc_new", key.ID, s.now))
		s.wantNoGrant("a revoked key", hash, s.now.Add(time.Hour))
	}
}

// revivedKey: a revoked key can live again with its id, unless its token is a live
// key of another account meanwhile.
func (s *suite) revivedKey() {
	s.account("acc_1", "acc_2")
	key, other := s.newKey("acc_1", "ci"), s.newKey("acc_2", "ci")
	hash := s.create(key)
	revive := func() error {
		return s.store.ChangeOne(s.Context(), s.now, key.Account, func(a *book.Account) error {
			a.Find(key.ID).RevokedAt = time.Time{}
			return nil
		})
	}
	for _, restart := range []bool{false, true, false} {
		s.must(s.store.RevokeKey(s.Context(), key.Account, key.ID, s.now))
		s.wantNoGrant("a revoked key", hash, s.now)
		if restart {
			s.restart()
		}
		s.must(revive())
		s.wantGrant(hash, key, "starter")
		s.wantHolder("a revived key", hash, s.now, key.Account)
		if restart {
			s.restart()
			s.wantGrant(hash, key, "starter")
		}
	}
	s.must(s.store.RevokeKey(s.Context(), key.Account, key.ID, s.now))
	s.must(s.store.CreateKey(s.Context(), other, hash))
	s.wantError("reviving a key whose token moved", revive(), store.ErrTokenTaken)
	s.wantGrant(hash, other, "starter")
	s.must(s.store.RevokeKey(s.Context(), other.Account, other.ID, s.now))
	s.must(revive())
	s.restart()
	s.wantGrant(hash, key, "starter")
}
