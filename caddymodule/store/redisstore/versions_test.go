package redisstore_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// TestEarlierVersions: gates can be updated one by one. Earlier versions know
// only the last use of a key, in a field of its own.
func TestEarlierVersions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStore(t, redisstore.Options{URL: server.URL()})
	newAccount(t, s, account)
	const id = "key_" + account
	use := func(at time.Time) {
		t.Helper()
		s.Record(store.Record{Account: account, Key: id, At: at, Day: 20780, Endpoint: "convert", From: netip.MustParseAddr("192.0.2.1")})
		_, err := s.Recent(t.Context(), account, at) // nothing waits to be written
		check(t, err)
	}
	want := func(from string, days ...store.KeyDay) {
		t.Helper()
		got, err := s.Key(t.Context(), account, id)
		check(t, err)
		if got.LastUsedFrom.String() != from || !slices.Equal(got.Days, days) {
			t.Errorf("got the last use from %v and days %v, want %s and %v", got.LastUsedFrom, got.Days, from, days)
		}
	}
	use(time.UnixMicro(1795000000000000))
	row, err := server.Do("HGET", keysKey, "u:"+id)
	check(t, err)
	if row != "1795000000000000 192.0.2.1" {
		t.Errorf("the last use is written as %q", row)
	}

	_, err = server.Do("HSET", keysKey, "u:"+id, "1795000001000000 192.0.2.7") // an earlier version writes this
	check(t, err)
	want("192.0.2.7", store.KeyDay{Day: 20780, Calls: 1})
	use(time.UnixMicro(1795000000500000)) // a call that ended before that
	want("192.0.2.7", store.KeyDay{Day: 20780, Calls: 2})
	_, err = server.Do("HDEL", keysKey, "d:"+id)
	check(t, err)
	want("192.0.2.7")
}
