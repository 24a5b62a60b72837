package redisstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/redis/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
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
	row := do(t, server, "HGET", keysKey, "k:key_"+account).(string)
	written, err := json.Marshal(hash)
	check(t, err)
	rows, tokens := []string{"HSET", keysKey}, []string{"MSET"}
	for i := range count - 1 {
		id := fmt.Sprintf("key_%d", i)
		hash := hashOf(id)
		own, err := json.Marshal(hash)
		check(t, err)
		rows = append(rows, "k:"+id, strings.Replace(row, string(written), string(own), 1))
		if i%10 == 0 {
			rows = append(rows, "u:"+id, "1795000000000000 192.0.2.1")
		}
		tokens = append(tokens, tokenKey(hash), account+" "+id)
	}
	do(t, server, rows...)
	do(t, server, tokens...)
}

func tokenKey(hash token.Hash) string { return fmt.Sprintf("tollgate:t:%x", hash[:]) }

// farStore opens a store whose server is far away.
func farStore(t testing.TB, server *redistest.Server) *redisstore.Store {
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
	endedKeys(t, server, 1100)
	s := farStore(t, server)
	check(t, s.DeleteAccount(t.Context(), account))
	for _, pattern := range []string{"tollgate:t:*", "tollgate:{" + account + "}*", "tollgate:accounts"} {
		if left := keysOf(t, server, pattern); len(left) > 0 {
			t.Errorf("%d keys %s are left", len(left), pattern)
		}
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
	s := farStore(t, server)
	want := store.MaxEndedKeys + extra
	for i := range 4 {
		newKey(t, s, account, fmt.Sprintf("new_%d", i))
		want = max(want-most, store.MaxEndedKeys+i) + 1
		kinds, tokens := map[byte]int{}, len(keysOf(t, server, "tollgate:t:*"))
		for _, field := range do(t, server, "HKEYS", keysKey).([]any) {
			kinds[field.(string)[0]]++
		}
		if uses := (store.MaxEndedKeys + extra) / 10; kinds['k'] != want || tokens != want || kinds['u'] > uses*want/(store.MaxEndedKeys+extra)+20 {
			t.Errorf("%v keys and uses and %d tokens are left after %d changes, want %d keys", kinds, tokens, i+1, want)
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
