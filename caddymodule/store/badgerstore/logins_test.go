package badgerstore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// newLogin is a login token that is as many milliseconds younger than
// others as its number is greater.
func newLogin(account string, number int, now time.Time) keyRow {
	k := keyRow{Key: newKey(account, fmt.Sprintf("login_%d", number), now.Add(time.Duration(number)*time.Millisecond))}
	k.Kind, k.ExpiresAt = token.Login, now.Add(24*time.Hour)
	k.hash = sha256.Sum256([]byte(k.ID))
	return k
}

// earlierLogins writes login tokens as a version without a limit did, and
// opens the store anew.
func earlierLogins(t *testing.T, n int) (s *Store, now time.Time) {
	t.Helper()
	now = time.Now().UTC().Truncate(time.Millisecond)
	dir := t.TempDir()
	reopen := func() {
		t.Helper()
		var err error
		if s, err = Open(dir, Options{Reserve: 1}); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: "acc_m", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatal(err)
	}
	var changes []change
	for number := range n {
		changes = append(changes, newLogin("acc_m", number, now).change())
	}
	if err := errors.Join(s.archive.write(changes...), s.Close()); err != nil {
		t.Fatal(err)
	}
	reopen()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, now
}

// live returns how many of the login tokens are live, and the first of
// them.
func live(t *testing.T, s *Store, n int, now time.Time) (count, first int) {
	t.Helper()
	for number := n - 1; number >= 0; number-- {
		_, err := s.Grant(t.Context(), newLogin("acc_m", number, now).hash, now)
		if err == nil {
			count, first = count+1, number
		} else if !errors.Is(err, store.ErrNoGrant) {
			t.Fatal(err)
		}
	}
	return count, first
}

// earlier is more login tokens than fit into one transaction of Badger.
const earlier = 29_400

// A directory of a version without a limit: the first new login token
// ends all that are too many.
func TestNewLoginEndsThoseOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s, now := earlierLogins(t, earlier)
	if count, _ := live(t, s, earlier, now); count != earlier {
		t.Fatalf("%d are live at first, want %d", count, earlier)
	}
	next := newLogin("acc_m", earlier, now)
	if err := s.CreateKey(t.Context(), next.Key, next.hash); err != nil {
		t.Fatal(err)
	}
	const oldest = earlier + 1 - store.MaxLiveLogins
	if count, first := live(t, s, earlier+1, now); count != store.MaxLiveLogins || first != oldest {
		t.Errorf("%d are live, the oldest of them number %d; want %d and %d", count, first, store.MaxLiveLogins, oldest)
	}
	if keys, err := s.ListKeys(t.Context(), "acc_m"); err != nil || len(keys) != store.MaxLiveLogins+1 {
		t.Errorf("%d are listed, %v; want the live ones and the one that ended last", len(keys), err)
	}
}

// Threat: an attacker with the password has made so many login tokens that a
// change of the password cannot end them.
func TestLoginsOfAnEarlierVersionEnd(t *testing.T) {
	t.Parallel()
	s, now := earlierLogins(t, earlier)
	if err := s.EndLogins(t.Context(), "acc_m", now); err != nil {
		t.Fatal(err)
	}
	if count, first := live(t, s, earlier, now); count != 0 {
		t.Errorf("%d are live, the first of them number %d; want none", count, first)
	}
}

// Threat: an account that logs in all day fills the store and slows down its
// logins.
func TestEndedLoginsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Millisecond)
	s := openWith(t, now, "acc_m")
	const excess = 3000
	var changes []change
	for number := range store.MaxEndedKeys + excess {
		k := newLogin("acc_m", number, now.Add(-time.Hour))
		if number%2 == 0 {
			k.RevokedAt = now
		} else {
			k.ExpiresAt = now.Add(-time.Second)
		}
		changes = append(changes, k.change())
	}
	if err := s.archive.write(changes...); err != nil {
		t.Fatal(err)
	}
	for number := range 3 {
		k := newLogin("acc_m", 1_000_000+number, now)
		k.CreatedAt = now
		if err := s.CreateKey(t.Context(), k.Key, k.hash); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := s.ListKeys(t.Context(), "acc_m")
	if err != nil || len(keys) != store.MaxEndedKeys+3 {
		t.Errorf("%d login tokens are kept, %v; want %d", len(keys), err, store.MaxEndedKeys+3)
	}
}
