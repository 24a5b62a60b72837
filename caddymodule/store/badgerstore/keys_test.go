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

// Threat: a client that replaces keys all day fills the store and slows down
// every change of its account.
func TestEndedKeysAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Millisecond)
	s := openWith(t, now, "acc_m")
	// One that a clock ahead may take for expired is not among them.
	recent := newKey("acc_m", "key_recent", now.Add(-time.Hour))
	recent.ExpiresAt = now.Add(-time.Minute)
	if err := s.CreateKey(t.Context(), recent, token.Hash{1}); err != nil {
		t.Fatal(err)
	}
	const excess = 300
	var changes []change
	for i := range store.MaxEndedKeys + excess {
		k := keyRow{Key: newKey("acc_m", fmt.Sprintf("key_%04d", i), now.Add(-2*clockAhead))}
		k.hash = sha256.Sum256([]byte(k.ID))
		// The order of their ends is not that of their ids.
		ended := now.Add(-clockAhead - time.Duration(i*7%(store.MaxEndedKeys+excess)+1)*time.Second)
		if i%2 == 0 {
			k.RevokedAt = ended
		} else {
			k.ExpiresAt = ended
			s.putToken(k) // as at a clock ahead
		}
		changes = append(changes, k.change())
	}
	if err := s.archive.write(changes...); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		key := newKey("acc_m", fmt.Sprintf("key_live_%d", i), now)
		if err := s.CreateKey(t.Context(), key, sha256.Sum256([]byte(key.ID))); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := s.ListKeys(t.Context(), "acc_m")
	if err != nil {
		t.Fatal(err)
	}
	live := 0
	oldest := now
	kept := map[token.Hash]bool{}
	for _, k := range keys {
		kept[sha256.Sum256([]byte(k.ID))] = true
		if k.Live(now) {
			live++
		} else if ended := k.EndedAt(); ended.Before(oldest) {
			oldest = ended
		}
	}
	want := now.Add(-clockAhead - store.MaxEndedKeys*time.Second)
	if live != 3 || len(keys) != store.MaxEndedKeys+4 || !oldest.Equal(want) {
		t.Errorf("%d keys, %d of them live, the oldest ended at %v; want %d, 3, %v", len(keys), live, oldest, store.MaxEndedKeys+4, want)
	}
	if !slices.ContainsFunc(keys, func(k store.Key) bool { return k.ID == recent.ID }) {
		t.Error("a key that may not have expired is gone")
	}
	for i := range store.MaxEndedKeys + excess {
		hash := token.Hash(sha256.Sum256(fmt.Appendf(nil, "key_%04d", i)))
		if _, err := s.Grant(t.Context(), hash, now.Add(-2*clockAhead)); err == nil && !kept[hash] {
			t.Fatalf("the token of key %d outlives its row", i)
		}
	}
}

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
