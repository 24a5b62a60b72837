package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/redis/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// fullAccount creates the account with as many keys and login tokens as are kept.
func fullAccount(t testing.TB, server *redistest.Server) {
	t.Helper()
	s := openStore(t, redisstore.Options{URL: server.URL()})
	check(t, put(t, s, account))
	check(t, s.ChangeOne(t.Context(), s.now(), account, func(a *book.Account) error {
		for i := range store.MaxEndedKeys + store.MaxEndedLogins {
			k := book.Key{Key: store.Key{ID: fmt.Sprint("key_", i), Account: account, Name: fmt.Sprint(i), CreatedAt: s.now()}, Hash: hashOf(fmt.Sprint(i))}
			k.Kind = token.Key
			if i%2 == 0 {
				k.Kind = token.Login
			}
			if err := a.Create(k); err != nil {
				return err
			}
			if i >= store.MaxEndedKeys {
				continue
			}
			if err := a.Revoke(k.ID, s.now()); err != nil {
				return err
			}
		}
		return nil
	}))
}

func tokenKey(hash token.Hash) string { return fmt.Sprintf("tollgate:t:%x", hash[:]) }

// farStore opens a store whose server is far away.
func farStore(t testing.TB, server *redistest.Server) *gate {
	t.Helper()
	far := redistest.StartProxy(t, server.Addr())
	far.Delay(6 * time.Millisecond)
	return openStore(t, redisstore.Options{URL: "redis://" + far.Addr(), Timeout: 3 * time.Second})
}

// TestDeleteManyKeys: an account with many keys is deleted within the timeout,
// also if the server is far away.
func TestDeleteManyKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	fullAccount(t, server)
	s := farStore(t, server)
	check(t, s.DeleteAccount(t.Context(), account))
	for _, pattern := range []string{"tollgate:t:*", "tollgate:n:*", "tollgate:{" + account + "}*", "tollgate:accounts", "tollgate:keys"} {
		if left := keysOf(t, server, pattern); len(left) > 0 {
			t.Errorf("%d keys %s are left", len(left), pattern)
		}
	}
	if err := s.DeleteAccount(t.Context(), account); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting it again: got %v, want %v", err, store.ErrNotFound)
	}
}

// TestPrune: a key that is no longer kept leaves nothing: neither its token nor
// its counts, and the entry of its id neither.
func TestPrune(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openReady(t, redisstore.Options{URL: server.URL()})
	call := store.Call{Account: account, Endpoint: "convert", Key: "key_0", Day: today()}
	for i := range store.MaxEndedKeys + 2 {
		id := fmt.Sprint("key_", i)
		newKey(t, s, account, id)
		if i == 0 {
			_, err := s.Take(t.Context(), call, nil, nil)
			check(t, err)
		}
		check(t, s.RevokeKey(t.Context(), account, id, s.now().Add(-time.Minute).Add(time.Duration(i))))
	}
	want := map[string]int{"tollgate:t:*": store.MaxEndedKeys, "tollgate:n:*": store.MaxEndedKeys, "*:u:*": 1, "tollgate:keys": 0}
	for pattern, want := range want {
		if got := len(keysOf(t, server, pattern)); got != want {
			t.Errorf("%d keys %s, want %d", got, pattern, want)
		}
	}
}

// TestFailedChangeKeepsToken: a change that fails does not shorten the life of
// the token, also if it fails after another gate came first.
func TestFailedChangeKeepsToken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		taken bool // before the change reads the account
	}{{"Taken", true}, {"TakenMeanwhile", false}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s, other := openStore(t, redisstore.Options{URL: server.URL()}), openStore(t, redisstore.Options{URL: server.URL()})
			hash := newAccount(t, s, account)
			if test.taken {
				newKey(t, other, account, "wanted")
			}
			tries := 0
			_, err := s.ChangeKey(t.Context(), account, "key_"+account, time.Now(), func(k *store.Key) error {
				if tries++; tries == 1 && !test.taken {
					newKey(t, other, account, "wanted")
				}
				k.Name, k.ExpiresAt = "wanted", time.Now().Add(time.Hour)
				return nil
			})
			if !errors.Is(err, store.ErrNameTaken) {
				t.Errorf("renaming to a taken name: got %v, want %v", err, store.ErrNameTaken)
			}
			if lives := do(t, server, "PTTL", tokenKey(hash)); lives != int64(-1) {
				t.Errorf("the token lives %v ms, want no end", lives)
			}
		})
	}
}

// TestTokenOutlivesKey: the entry of a token lives at least as long as its key,
// after each change of the time that the key expires.
func TestTokenOutlivesKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openReady(t, redisstore.Options{URL: server.URL()})
	hash, now := hashOf("short"), time.Now()
	key := store.Key{ID: "short", Account: account, Kind: token.Key, Name: "short", CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	check(t, s.CreateKey(t.Context(), key, hash))
	for _, expires := range []time.Time{now.Add(1000 * time.Hour), now.Add(time.Minute), now.Add(2000 * time.Hour), {}, now.Add(time.Hour), {}} {
		_, err := s.ChangeKey(t.Context(), account, "short", now, func(k *store.Key) error {
			k.ExpiresAt = expires
			return nil
		})
		check(t, err)
		if end := do(t, server, "PEXPIRETIME", tokenKey(hash)).(int64); end != -1 && (expires.IsZero() || end < expires.UnixMilli()) {
			t.Errorf("the key expires at %v, its token ends at %v", expires, time.UnixMilli(end))
		}
	}
}
