package badgerstore

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
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
