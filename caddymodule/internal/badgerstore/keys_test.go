package badgerstore

import (
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// openWith opens a store with some accounts.
func openWith(t *testing.T, now time.Time, accounts ...string) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), Options{Reserve: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, id := range accounts {
		if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: id, Plan: "starter", CreatedAt: now}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func newKey(account, id string, now time.Time) store.Key {
	return store.Key{ID: id, Account: account, Kind: token.Key, Name: id, Abilities: []string{"convert"}, CreatedAt: now}
}

// Threat: a client that replaces keys, or logs in, all day fills the store and
// slows down every change of its account.
func TestEndedKeysAreBounded(t *testing.T) {
	t.Parallel()
	const excess = 300
	for _, kind := range []token.Kind{token.Key, token.Login} {
		now := time.Now().UTC().Truncate(time.Millisecond)
		s := openWith(t, now, "acc_m")
		var changes []change
		for i := range store.MaxEndedKeys + excess {
			k := keyRow{Key: newKey("acc_m", fmt.Sprintf("key_%04d", i), now.Add(-2*clockAhead)), hash: hashOfNumber(i)}
			k.Kind = kind
			// The order of their ends is not that of their ids.
			ended := now.Add(-clockAhead/2 - time.Duration(i*7%(store.MaxEndedKeys+excess)+1)*time.Second)
			if kind == token.Key {
				ended = ended.Add(-clockAhead / 2)
			}
			if i%2 == 0 {
				k.RevokedAt = ended
				k.ExpiresAt = now.Add(time.Hour)
			} else {
				k.ExpiresAt = ended
				s.putToken(k) // as at a clock ahead
			}
			changes = append(changes, k.change())
		}
		// A key that a clock ahead may take for expired is not among them.
		recent := keyRow{Key: newKey("acc_m", "key_recent", now.Add(-time.Hour))}
		recent.ExpiresAt = now.Add(-time.Minute)
		if err := s.archive.write(append(changes, recent.change())...); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			key := newKey("acc_m", fmt.Sprintf("key_live_%d", i), now)
			key.Kind = kind
			if err := s.CreateKey(t.Context(), key, token.Hash{1, byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		keys, err := s.ListKeys(t.Context(), "acc_m")
		if err != nil {
			t.Fatal(err)
		}
		oldest, kept := now, map[string]bool{}
		for _, k := range keys {
			kept[k.ID] = true
			if ended := k.EndedAt(); !k.Live(now) && ended.Before(oldest) {
				oldest = ended
			}
		}
		want := now.Add(-clockAhead/2 - store.MaxEndedKeys*time.Second)
		if kind == token.Key {
			want = want.Add(-clockAhead / 2)
		}
		if len(keys) != store.MaxEndedKeys+4 || !kept["key_live_2"] || !kept[recent.ID] || !oldest.Equal(want) {
			t.Errorf("%s: %d keys, the oldest ended at %v; want %d, %v", kind, len(keys), oldest, store.MaxEndedKeys+4, want)
		}
		for i := range store.MaxEndedKeys + excess {
			if _, err := s.Grant(t.Context(), hashOfNumber(i), now.Add(-2*clockAhead)); err == nil && !kept[fmt.Sprintf("key_%04d", i)] {
				t.Fatalf("%s: the token of key %d outlives its row", kind, i)
			}
		}
	}
}

func hashOfNumber(i int) token.Hash { return sha256.Sum256([]byte(fmt.Sprint(i))) }

// Threat: an account has so many keys that the logins of all others wait for
// it.
func TestAccountsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Millisecond)
	accounts := []string{"acc_m"}
	for i := range 10 * stripes {
		accounts = append(accounts, fmt.Sprintf("acc_%d", i))
	}
	s := openWith(t, now, "acc_m")
	stripe := func(account string) uint64 { return maphash.String(s.seed, account) % stripes }
	other := slices.IndexFunc(accounts, func(id string) bool { return stripe(id) != stripe("acc_m") })
	if _, err := storetest.PutAccount(t.Context(), s, store.Account{ID: accounts[other], Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatal(err)
	}
	err := s.alter("acc_m", func() error {
		done := make(chan error, 1)
		go func() { done <- s.CreateKey(t.Context(), newKey(accounts[other], "key_1", now), token.Hash{1}) }()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			return fmt.Errorf("still waiting")
		}
	})
	if err != nil {
		t.Errorf("a key of another account: %v", err)
	}
}
