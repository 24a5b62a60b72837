package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/token"
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
	far.Delay(20 * time.Millisecond)
	return openStore(t, redisstore.Options{URL: "redis://" + far.Addr(), Timeout: 10 * time.Second})
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

// TestCreateAgain: what closed accounts have used and were credited, and their
// overage, move when the next account with the id is created, in all months, and
// expire as before. Their totals are deleted.
// Their calls that are given back late do not bring back what a gate has seen.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	late, s := openStore(t, redisstore.Options{URL: server.URL()}), openStore(t, redisstore.Options{URL: server.URL()})
	day := today()
	days := []calendar.Day{day, day - 45, day - store.CountsFor}
	var first store.Call
	limits := append(allTotals(10*3), store.Limit{Endpoint: "convert", Period: store.Day, Max: 10, Soft: true, Included: 1})
	for round, gate := range []*gate{late, s, s} {
		grant, err := s.Confirm(t.Context(), newAccount(t, s, account), s.now())
		check(t, err)
		call := store.Call{Account: account, Endpoint: "convert", Key: "key_" + account, Handle: grant.Handle, Cost: int64(10 - round)}
		for _, call.Day = range days {
			if admitted, err := gate.Take(t.Context(), call, limits, make([]store.Room, len(limits))); err != nil || !admitted {
				t.Fatalf("a call of %s in round %d: got %t, %v", call.Day, round, admitted, err)
			}
			if round < 2 {
				check(t, gate.Engine.Credit(t.Context(), account, []string{call.Key}, call.Day, "convert", int64(2*round+2)))
			}
			if round > 0 {
				check(t, late.Settle(t.Context(), first, nil, nil, 0, false)) // changes nothing: its account is another one
			}
		}
		check(t, s.DeleteAccount(t.Context(), account))
		if round == 0 {
			first = call
			first.Cost = 1
		}
	}
	check(t, late.Settle(t.Context(), first, nil, nil, 0, false)) // of the last day
	check(t, put(t, s, account))
	for i, day := range days {
		want := map[string]int64{store.Closed: 10 + 9 + 8 - 2*2, store.ClosedCredited: 2 * 2, store.ClosedOverage: 9 + 8 + 7}
		if i == len(days)-1 {
			want[store.Closed]--
		}
		got, err := s.CountsOfAccounts(t.Context(), []string{account}, day, day)
		check(t, err)
		for _, c := range got {
			if c.Used != want[c.Key] {
				t.Errorf("%d calls of %s, want %d: %+v", c.Used, c.Key, want[c.Key], got)
			}
		}
		if len(got) != len(want) {
			t.Errorf("got %+v, want %v", got, want)
		}
		_, last := day.Month()
		expires := (last + 1 + store.CountsFor).UTC().Unix()
		month := strings.ReplaceAll(day.String()[:7], "-", "")
		if left := keysOf(t, server, "*:u:999912*"); len(left) > 0 {
			t.Errorf("the totals %v are left", left)
		}
		for _, key := range keysOf(t, server, "*:u:"+month+"*") {
			if !strings.Contains(key, ":~closed") {
				t.Errorf("%s is left", key)
			}
			if got := do(t, server, "EXPIRETIME", key); got != expires {
				t.Errorf("%s expires at %v, want %d", key, got, expires)
			}
		}
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
			_, err := s.Take(t.Context(), call, allTotals(9)[1:2], make([]store.Room, 1))
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
