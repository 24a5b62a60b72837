package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// newLogin is a login token that is as many seconds younger than others as
// its number is greater. Its id and its token follow from the number.
func (s *suite) newLogin(account string, number int) store.Key {
	login := s.newKey(account, "login")
	login.ID, login.Kind = fmt.Sprintf("login_%s_%d", account, number), token.Login
	login.CreatedAt = s.now.Add(time.Duration(number) * time.Second)
	login.ExpiresAt = s.now.Add(24 * time.Hour)
	return login
}

// createLogins stores the login tokens from first to last.
func (s *suite) createLogins(account string, first, last int) {
	s.Helper()
	for number := first; number <= last; number++ {
		s.create(s.newLogin(account, number))
	}
}

// wantLogins checks that the tokens from first to last are live, and those
// before and up to total are not.
func (s *suite) wantLogins(account string, first, last, total int) {
	s.Helper()
	var wrong []int
	for number := 1; number <= total; number++ {
		want := number >= first && number <= last
		_, err := s.store.Grant(s.Context(), hashOf(s.newLogin(account, number).ID), s.now)
		if err != nil && !errors.Is(err, store.ErrNoGrant) {
			s.Fatalf("grant of login token %d: %v", number, err)
		}
		if live := err == nil; live != want {
			wrong = append(wrong, number)
		}
	}
	if len(wrong) > 0 {
		s.Errorf("of %d login tokens, %d to %d must be live; %d are not as they must be, the first of them %d",
			total, first, last, len(wrong), wrong[0])
	}
}

// loginLimit: the login token that is one too many ends the oldest.
func (s *suite) loginLimit() {
	const most = store.MaxLiveLogins
	s.account("acc_1", "acc_2")
	key := s.newKey("acc_1", "ci")
	s.create(key)
	s.createLogins("acc_2", 1, 1)
	// The order of creation decides, not that of the ids.
	s.createLogins("acc_1", 1, most)
	s.wantLogins("acc_1", 1, most, most)
	s.createLogins("acc_1", most+1, most+1)
	s.wantLogins("acc_1", 2, most+1, most+1)

	ended, err := s.store.Key(s.Context(), "acc_1", s.newLogin("acc_1", 1).ID)
	s.must(err)
	want := s.newLogin("acc_1", 1)
	want.RevokedAt = s.newLogin("acc_1", most+1).CreatedAt
	s.wantKey(ended, want)

	// Tokens that were revoked or expired leave room.
	s.must(s.store.RevokeKey(s.Context(), "acc_1", s.newLogin("acc_1", 50).ID, s.now))
	short := s.newLogin("acc_1", most+2)
	short.ExpiresAt = short.CreatedAt.Add(time.Second)
	s.create(short)
	s.createLogins("acc_1", most+4, most+4)
	s.wantNoGrant("the revoked token", hashOf(s.newLogin("acc_1", 50).ID), s.now)
	s.wantGrant(hashOf(s.newLogin("acc_1", 2).ID), s.newLogin("acc_1", 2), "starter")

	s.wantGrant(hashOf(key.ID), key, "starter")
	s.wantLogins("acc_2", 1, 1, 1)
	if s.reopen != nil {
		s.store = s.reopen()
		s.wantNoGrant("the oldest token", hashOf(s.newLogin("acc_1", 1).ID), s.now)
		s.wantGrant(hashOf(s.newLogin("acc_1", 2).ID), s.newLogin("acc_1", 2), "starter")
	}
}

// loginLimitOfRotation: the limit holds for login tokens that are
// rotated, and the rotated one keeps its overlap.
func (s *suite) loginLimitOfRotation() {
	const most = store.MaxLiveLogins
	s.account("acc_1")
	s.createLogins("acc_1", 1, most)
	oldest := s.newLogin("acc_1", 1)
	next := s.newLogin("acc_1", most+1)
	s.must(s.store.RotateKey(s.Context(), "acc_1", oldest.ID, next, hashOf(next.ID), next.CreatedAt))
	s.wantLogins("acc_1", 2, most+1, most+1)
	second, third := s.newLogin("acc_1", 2), s.newLogin("acc_1", most+2)
	s.must(s.store.RotateKey(s.Context(), "acc_1", second.ID, third, hashOf(third.ID), third.CreatedAt.Add(time.Hour)))
	s.wantGrant(hashOf(second.ID), second, "starter")
	s.wantNoGrant("the oldest of the others", hashOf(s.newLogin("acc_1", 3).ID), s.now)
	s.wantGrant(hashOf(s.newLogin("acc_1", 4).ID), s.newLogin("acc_1", 4), "starter")
	s.wantGrant(hashOf(third.ID), third, "starter")
}

// endLogins: all login tokens of an account end, and nothing else.
func (s *suite) endLogins() {
	const most = store.MaxLiveLogins
	s.account("acc_1", "acc_2", "acc_3")
	s.wantError("ending logins of an unknown account", s.store.EndLogins(s.Context(), "nobody", s.now), store.ErrNotFound)
	s.must(s.store.EndLogins(s.Context(), "acc_3", s.now)) // it has none
	key := s.newKey("acc_1", "ci")
	s.create(key)
	s.createLogins("acc_1", 1, most)
	s.createLogins("acc_2", 1, 1)
	// A clock that was ahead made some of them in the future of this call.
	at := s.newLogin("acc_1", most/2).CreatedAt
	s.must(s.store.EndLogins(s.Context(), "acc_1", at))
	s.wantLogins("acc_1", 0, 0, most)
	s.wantGrant(hashOf(key.ID), key, "starter")
	s.wantLogins("acc_2", 1, 1, 1)
	ended, err := s.store.Key(s.Context(), "acc_1", s.newLogin("acc_1", 7).ID)
	s.must(err)
	want := s.newLogin("acc_1", 7)
	want.RevokedAt = at
	s.wantKey(ended, want)

	// One that is made afterwards lives, also where the clock went back.
	s.createLogins("acc_1", most+1, most+1)
	early := s.newLogin("acc_1", -3600)
	s.create(early)
	if s.reopen != nil {
		s.store = s.reopen()
	}
	s.wantLogins("acc_1", most+1, most+1, most+1)
	s.wantGrant(hashOf(early.ID), early, "starter")

	// A clock ahead takes one for expired, which must not come back when
	// the clock is right.
	s.must(s.store.EndLogins(s.Context(), "acc_1", s.now.Add(25*time.Hour)))
	s.wantLogins("acc_1", 0, 0, most+1)
	s.wantNoGrant("a token that a clock ahead took for expired", hashOf(early.ID), s.now)
	if s.reopen != nil {
		s.store = s.reopen()
		s.wantLogins("acc_1", 0, 0, most+1)
	}
}

// endLoginsUnderLoad: once EndLogins has returned, no Grant that begins
// finds one of the tokens that were there before, and those that are made
// afterwards live.
func (s *suite) endLoginsUnderLoad() {
	const rounds, readers, logins = 10, 4, 5
	s.account("acc_1")
	for round := range rounds {
		first := round*logins + 1
		s.createLogins("acc_1", first, first+logins-1)
		var ended atomic.Bool
		s.together(readers+1, func(i int) error {
			if i == 0 {
				err := s.store.EndLogins(s.Context(), "acc_1", s.now)
				ended.Store(true)
				return err
			}
			hash := hashOf(s.newLogin("acc_1", first+i%logins).ID)
			for {
				before := ended.Load()
				_, err := s.store.Grant(s.Context(), hash, s.now)
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
