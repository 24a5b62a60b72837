package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// newLogin returns a login token that was created number seconds after now.
// Its id and its token follow from the number.
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

// wantLogins checks that of the tokens from 1 to total, those from first to
// last are live and the others are not.
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
		s.Errorf("of %d login tokens, only %d to %d must be live; %d are wrong, the first is %d",
			total, first, last, len(wrong), wrong[0])
	}
}

// loginLimit: a login token above the limit revokes the oldest.
func (s *suite) loginLimit() {
	const most = store.MaxLiveLogins
	s.account("acc_1", "acc_2")
	key := s.newKey("acc_1", "ci")
	s.create(key)
	s.createLogins("acc_2", 1, 1)
	// The time of creation decides, not the id.
	s.createLogins("acc_1", 1, most)
	s.wantLogins("acc_1", 1, most, most)
	s.createLogins("acc_1", most+1, most+1)
	s.wantLogins("acc_1", 2, most+1, most+1)

	ended, err := s.store.Key(s.Context(), "acc_1", s.newLogin("acc_1", 1).ID)
	s.must(err)
	want := s.newLogin("acc_1", 1)
	want.RevokedAt = s.newLogin("acc_1", most+1).CreatedAt
	s.wantKey(ended, want)

	// Revoked and expired tokens do not count.
	s.must(s.store.RevokeKey(s.Context(), "acc_1", s.newLogin("acc_1", 50).ID, s.now))
	short := s.newLogin("acc_1", most+2)
	short.ExpiresAt = short.CreatedAt.Add(time.Second)
	s.create(short)
	s.createLogins("acc_1", most+4, most+4)
	s.wantNoGrant("the revoked token", hashOf(s.newLogin("acc_1", 50).ID), s.now)
	s.wantGrant(hashOf(s.newLogin("acc_1", 2).ID), s.newLogin("acc_1", 2), "starter")

	s.wantGrant(hashOf(key.ID), key, "starter")
	s.wantLogins("acc_2", 1, 1, 1)
	s.restart()
	s.wantNoGrant("the oldest token", hashOf(s.newLogin("acc_1", 1).ID), s.now)
	s.wantGrant(hashOf(s.newLogin("acc_1", 2).ID), s.newLogin("acc_1", 2), "starter")
}

// loginLimitOfRotation: a rotation above the limit revokes the oldest login
// token, but not the rotated one.
func (s *suite) loginLimitOfRotation() {
	const most = store.MaxLiveLogins
	s.account("acc_1")
	s.createLogins("acc_1", 1, most)
	oldest := s.newLogin("acc_1", 1)
	next := s.newLogin("acc_1", most+1)
	s.must(s.replace(oldest.ID, next, next.CreatedAt))
	s.wantLogins("acc_1", 2, most+1, most+1)
	second, third := s.newLogin("acc_1", 2), s.newLogin("acc_1", most+2)
	s.must(s.replace(second.ID, third, third.CreatedAt.Add(time.Hour)))
	s.wantGrant(hashOf(second.ID), second, "starter")
	s.wantNoGrant("the oldest of the others", hashOf(s.newLogin("acc_1", 3).ID), s.now)
	s.wantGrant(hashOf(s.newLogin("acc_1", 4).ID), s.newLogin("acc_1", 4), "starter")
	s.wantGrant(hashOf(third.ID), third, "starter")
}

// endLogins: all login tokens of an account end, and its keys do not.
func (s *suite) endLogins() {
	const most = store.MaxLiveLogins
	s.account("acc_1", "acc_2", "acc_3")
	s.wantError("ending logins of an unknown account", s.store.EndLogins(s.Context(), "acc_unknown", s.now), store.ErrNotFound)
	s.must(s.store.EndLogins(s.Context(), "acc_3", s.now)) // it has none
	key := s.newKey("acc_1", "ci")
	s.create(key)
	s.createLogins("acc_1", 1, most)
	s.createLogins("acc_2", 1, 1)
	// Some were created after at, by a clock that was ahead.
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

	// A token that is created afterwards is live, also if the clock went back.
	s.createLogins("acc_1", most+1, most+1)
	early := s.newLogin("acc_1", -3600)
	s.create(early)
	s.restart()
	s.wantLogins("acc_1", most+1, most+1, most+1)
	s.wantGrant(hashOf(early.ID), early, "starter")

	// To a clock that is ahead, a token has expired. The token must not be
	// valid again when the clock is corrected.
	s.must(s.store.EndLogins(s.Context(), "acc_1", s.now.Add(25*time.Hour)))
	s.wantLogins("acc_1", 0, 0, most+1)
	s.wantNoGrant("a token that had expired by a clock ahead", hashOf(early.ID), s.now)
	s.restart()
	s.wantLogins("acc_1", 0, 0, most+1)
}

// endLoginsUnderLoad: a Grant that begins after EndLogins has returned finds
// no older login token. Tokens that are created afterwards are live.
func (s *suite) endLoginsUnderLoad() {
	const readers, logins = 4, 5
	s.account("acc_1")
	for round := range rounds(30) {
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
