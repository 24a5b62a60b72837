package redisstore_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

const keysKey = "tollgate:{" + account + "}:k"

// endedKeys creates the account with revoked keys. One in ten was used. It copies
// one key: to create and revoke each key would take longer.
func endedKeys(t testing.TB, server *redistest.Server, count int) {
	t.Helper()
	s := openStore(t, redisstore.Options{URL: server.URL()})
	hash := newAccount(t, s, account)
	check(t, s.RevokeKey(t.Context(), account, "key_"+account, time.Now()))
	row, err := server.Do("HGET", keysKey, "k:key_"+account)
	check(t, err)
	written := func(hash token.Hash) string {
		text, err := json.Marshal(hash)
		check(t, err)
		return string(text)
	}
	if !strings.Contains(row.(string), written(hash)) {
		t.Fatalf("the key %s has no token %s", row, written(hash))
	}
	rows, tokens := []string{"HSET", keysKey}, []string{"MSET"}
	for i := range count - 1 {
		id := fmt.Sprintf("key_%d", i)
		own := hashOf(id)
		rows = append(rows, "k:"+id, strings.Replace(row.(string), written(hash), written(own), 1))
		if i%10 == 0 {
			rows = append(rows, "u:"+id, "1795000000000000 192.0.2.1", "d:"+id, "20780:1:0")
		}
		tokens = append(tokens, "tollgate:t:"+hex.EncodeToString(own[:]), account+" "+id)
	}
	for _, command := range [][]string{rows, tokens} {
		_, err := server.Do(command...)
		check(t, err)
	}
	if got := tokensOf(t, server); got != count {
		t.Fatalf("the server has %d tokens, want %d", got, count)
	}
}

// tokensOf counts the tokens on a server.
func tokensOf(t testing.TB, server *redistest.Server) int {
	t.Helper()
	keys, err := server.Do("KEYS", "tollgate:t:*")
	check(t, err)
	return len(keys.([]any))
}

// TestDeleteManyKeys: an account with many keys is deleted within the timeout,
// also if the server is far away.
func TestDeleteManyKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	endedKeys(t, server, 1100)
	far := startRelay(t, server.Addr(), 6*time.Millisecond)
	s := openStore(t, redisstore.Options{URL: far.url(), Timeout: 3 * time.Second})
	check(t, s.DeleteAccount(t.Context(), account))
	if got := tokensOf(t, server); got != 0 {
		t.Errorf("%d tokens are left", got)
	}
	list, err := server.Do("ZCARD", "tollgate:accounts")
	check(t, err)
	left, err := server.Do("KEYS", "tollgate:{"+account+"}*")
	check(t, err)
	if list != int64(0) || len(left.([]any)) != 0 {
		t.Errorf("%v accounts are listed, and %v is left", list, left)
	}
	if err := s.DeleteAccount(t.Context(), account); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting it again: got %v, want %v", err, store.ErrNotFound)
	}
}

// TestPruneManyKeys: a change deletes some of too many keys, and takes no
// longer than its timeout.
func TestPruneManyKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const extra, most = 500, 200
	endedKeys(t, server, store.MaxEndedKeys+extra)
	far := startRelay(t, server.Addr(), 6*time.Millisecond)
	s := openStore(t, redisstore.Options{URL: far.url(), Timeout: 3 * time.Second})
	want := store.MaxEndedKeys + extra
	for i := range 4 {
		newKey(t, s, account, fmt.Sprintf("new_%d", i))
		want = max(want-most, store.MaxEndedKeys+i) + 1
		if got := tokensOf(t, server); got != want {
			t.Errorf("%d tokens are left after %d changes, want %d", got, i+1, want)
		}
		if keys, others := fieldsOf(t, server); keys != want || others > 0 {
			t.Errorf("%d keys, and uses of %d others, are left after %d changes, want %d keys", keys, others, i+1, want)
		}
	}
}

// fieldsOf counts the keys on a server, and other keys that still have a last
// use or days.
func fieldsOf(t testing.TB, server *redistest.Server) (keys, others int) {
	t.Helper()
	fields, err := server.Do("HKEYS", keysKey)
	check(t, err)
	kinds := map[string]string{} // by id
	for _, field := range fields.([]any) {
		kind, id, _ := strings.Cut(field.(string), ":")
		kinds[id] += kind
	}
	for _, of := range kinds {
		if strings.Contains(of, "k") {
			keys++
		} else {
			others++
		}
	}
	return keys, others
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
			tokenKey := "tollgate:t:" + hex.EncodeToString(hash[:])
			if lives, err := server.Do("PTTL", tokenKey); err != nil || lives != int64(-1) {
				t.Errorf("the token lives %v ms (%v), want no end", lives, err)
			}
		})
	}
}

// TestTokenOutlivesKey: the entry of a token lives at least as long as its key,
// after each change of the time that the key expires.
func TestTokenOutlivesKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStore(t, redisstore.Options{URL: server.URL()})
	newAccount(t, s, account)
	hash, now := hashOf("short"), time.Now()
	key := store.Key{ID: "short", Account: account, Kind: token.Key, Name: "short", CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	check(t, s.CreateKey(t.Context(), key, hash))
	for _, expires := range []time.Time{now.Add(1000 * time.Hour), now.Add(time.Minute), now.Add(2000 * time.Hour), {}, now.Add(time.Hour), {}} {
		_, err := s.ChangeKey(t.Context(), account, "short", now, func(k *store.Key) error {
			k.ExpiresAt = expires
			return nil
		})
		check(t, err)
		reply, err := server.Do("PEXPIRETIME", "tollgate:t:"+hex.EncodeToString(hash[:]))
		check(t, err)
		if end := reply.(int64); end != -1 && (expires.IsZero() || end < expires.UnixMilli()) {
			t.Errorf("the key expires at %v, its token ends at %v", expires, time.UnixMilli(end))
		}
	}
}
