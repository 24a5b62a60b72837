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
