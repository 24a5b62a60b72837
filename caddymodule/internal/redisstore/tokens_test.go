package redisstore_test

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/redis/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// moveToken moves the token of the only key of acc_1 to acc_2.
func moveToken(t *testing.T, s *redisstore.Store) token.Hash {
	t.Helper()
	hash := newAccount(t, s, "acc_1")
	check(t, s.RevokeKey(t.Context(), "acc_1", "key_acc_1", time.Now()))
	newAccount(t, s, "acc_2")
	check(t, s.CreateKey(t.Context(), imported("acc_2"), hash))
	return hash
}

func imported(account string) store.Key {
	return store.Key{ID: "key_imported_" + account, Account: account, Kind: token.Key, Name: "imported", CreatedAt: time.Now()}
}

// wantOwner checks to whom a token belongs, at a gate that has just begun.
func wantOwner(t *testing.T, o redisstore.Options, hash token.Hash, want string) {
	t.Helper()
	if grant, err := openStore(t, o).Grant(t.Context(), hash, time.Now()); err != nil || grant.Account != want {
		t.Errorf("got a grant of %q, %v, want %s", grant.Account, err, want)
	}
}

// TestPruneMovedToken: 90 days after the old key of a moved token has ended, it
// is deleted without the token.
func TestPruneMovedToken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := redisstore.Options{URL: server.URL()}
	s := openStore(t, o)
	hash := moveToken(t, s)
	row := do(t, server, "HGET", keysKey, "k:key_acc_1").(string)
	ended := time.Now().Add(-store.RevokedFor - time.Hour).UnixNano()
	do(t, server, "HSET", keysKey, "k:key_acc_1", regexp.MustCompile(`"v":\d+`).ReplaceAllString(row, fmt.Sprintf(`"v":%d`, ended)))
	newKey(t, s, "acc_1", "key_other") // prunes
	if _, err := s.Key(t.Context(), "acc_1", "key_acc_1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the old key is not pruned: %v", err)
	}
	wantOwner(t, o, hash, "acc_2")
}

// TestEntryWithoutKey: a token whose key may be about to be written is refused
// for another account, until its own account has made the key or is deleted.
func TestEntryWithoutKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := redisstore.Options{URL: server.URL()}
	s := openStore(t, o)
	newAccount(t, s, "acc_1")
	newAccount(t, s, "acc_2")
	left := func(text string) token.Hash {
		do(t, server, "SET", tokenKey(hashOf(text)), "acc_1 key_imported_acc_1")
		return hashOf(text)
	}
	hash := left("one")
	if err := s.CreateKey(t.Context(), imported("acc_2"), hash); !errors.Is(err, store.ErrTokenTaken) {
		t.Errorf("another account: got %v, want %v", err, store.ErrTokenTaken)
	}
	if account, err := s.Holder(t.Context(), hash, time.Now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the holder: got %q, %v", account, err)
	}
	check(t, s.CreateKey(t.Context(), imported("acc_1"), hash))
	wantOwner(t, o, hash, "acc_1")
	check(t, s.DeleteAccount(t.Context(), "acc_1"))
	hash = left("two")
	check(t, s.CreateKey(t.Context(), imported("acc_2"), hash))
	wantOwner(t, o, hash, "acc_2")
}

// TestRestoreMovedToken: a moved token belongs to its live key after a restore,
// in whatever order the keys are.
func TestRestoreMovedToken(t *testing.T) {
	t.Parallel()
	from := openStore(t, redisstore.Options{URL: redistest.Start(t).URL()})
	hash := moveToken(t, from)
	var accounts, keys []store.Item
	check(t, from.Export(t.Context(), func(item store.Item) error {
		switch {
		case item.Account != nil:
			accounts = append(accounts, item)
		case item.Key != nil && item.Key.Account == "acc_2": // first
			keys = append([]store.Item{item}, keys...)
		case item.Key != nil:
			keys = append(keys, item)
		}
		return nil
	}))
	o := redisstore.Options{URL: redistest.Start(t).URL()}
	check(t, redisstore.Restore(t.Context(), o, all(append(accounts, keys...), nil)))
	wantOwner(t, o, hash, "acc_2")
}
