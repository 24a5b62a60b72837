package redisstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// trips counts the commands that the stores of a fleet send for calls.
type trips struct {
	*fleet
	server *redistest.Server
}

// want checks how many commands were sent since the last time.
func (r *trips) want(what string, want int) {
	r.Helper()
	sent, err := r.server.Sent()
	check(r, err)
	check(r, r.server.Watch())
	var calls []string
	for _, command := range sent {
		// The stores look at the server as well.
		if strings.Contains(command, "{"+account+"}") || strings.Contains(command, "tollgate:t:") {
			calls = append(calls, command)
		}
	}
	if len(calls) != want {
		r.Errorf("%s: %d round trips, want %d:\n%s", what, len(calls), want, strings.Join(calls, "\n"))
	}
}

// TestRoundTrips counts what a server gets for calls.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := newFleet(t, redisstore.Options{URL: server.URL()})
	limits := []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: 1000}, {Endpoint: store.All, Period: store.Month, Max: 1000},
		{Endpoint: "convert", Period: store.Hour, Max: 1000},
	}
	f.take(0, f.call(), limits) // this and the refund load the scripts
	check(t, f.gates[0].Settle(t.Context(), f.call(), nil, nil, 0, false))
	r := &trips{fleet: f, server: server}
	check(t, server.Watch())
	f.take(1, f.call(), limits)
	r.want("the first call", 3)
	for range 10 {
		f.take(1, f.call(), limits)
	}
	r.want("ten calls", 10)

	_, err := storetest.PutAccount(t.Context(), f.gates[0].Book, store.Account{ID: account, Plan: "pro"})
	check(t, err)
	r.want("a change", 2)
	f.take(1, f.call(), limits)
	r.want("a call after a change", 3)
	f.take(1, f.call(), limits)
	r.want("the next call", 1)

	other := newKey(t, f.gates[0], account, "key_other")
	r.want("a new key", 3)
	f.take(1, f.call(), limits)
	r.want("a call after a change", 3)
	if _, _, err := decide(t.Context(), f.gates[1], other, f.call(), limits); err != nil {
		t.Error(err)
	}
	r.want("the first call of the new key", 3)

	check(t, f.gates[1].Settle(t.Context(), f.call(), nil, nil, 0, false))
	r.want("a refund", 1)
	call, kinds := f.call(), allKinds(1000)
	call.Key, call.Cost = "key_"+account, 5
	call.Month = calendar.Window{First: call.Day - 35, Last: call.Day + 5} // two or three months of the calendar
	f.take(1, call, kinds)
	r.want("a call with each kind of limits", 1)
	check(t, f.gates[1].Settle(t.Context(), call, kinds, make([]store.Room, len(kinds)), 7, false))
	r.want("its settlement", 1)
	if f.take(1, f.call(), daily(0)) {
		t.Error("a limit of 0 admitted a call")
	}
	r.want("a refused call", 1)
	_, _, err = decide(t.Context(), f.gates[1], hashOf("unknown"), f.call(), limits)
	if !errors.Is(err, store.ErrNoGrant) {
		t.Errorf("an unknown token: %v", err)
	}
	r.want("an unknown token", 1)
}

// use does all that calls and logins do.
func (f *fleet) use() {
	f.Helper()
	key := "key_" + account
	limits := []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: 20}, {Endpoint: store.All, Period: store.Month, Max: 20},
		{Endpoint: "convert", Period: store.Second, Max: 5}, {Endpoint: store.All, Period: store.Hour, Max: 50},
		{Endpoint: "convert", Period: store.Month, Max: 30, OfKey: true}, {Endpoint: store.All, Period: store.Minute, Max: 40, OfKey: true},
	}
	call := f.call()
	call.Key = key
	for i := range 30 {
		f.take(i%3, call, limits)
		f.take(i%3, f.call(), daily(20))
		f.take(i%3, call, allKinds(1000))
		f.gates[i%3].Record(store.Record{Account: account, Key: key, At: time.Now(), Endpoint: "convert", Status: 200})
	}
	earlier := call
	earlier.Day -= 40
	if !f.take(0, earlier, daily(20)) {
		f.Error("a call of another month was refused")
	}
	check(f, f.gates[0].Settle(f.Context(), call, nil, nil, 0, false))
	check(f, f.gates[0].AddRefused(f.Context(), []store.Refused{{Day: f.day, Code: "no_token", Calls: 1}}))
	check(f, f.gates[1].ResetCounts(f.Context(), account, "convert", f.day))
	check(f, f.gates[2].ResetCounts(f.Context(), account, "", f.day-100))
	attempts := login.Limits{
		PerClient: 5, Window: time.Minute, Free: 1, FirstWait: time.Second, MaxWait: time.Minute, Forget: time.Hour, KnownFor: 24 * time.Hour,
	}
	for i, gate := range f.gates {
		_, err := gate.Recent(f.Context(), account, time.Now())
		check(f, err)
		limiter := login.NewShared(gate.redis.Attempts(), gate.redis.Timeout(), outage.New(slog.New(slog.DiscardHandler), slog.LevelError, "limiting logins"))
		for n := range 4 {
			who := login.AccountOf(fmt.Sprintf("user%d@example.com", n))
			client := login.ClientOf(fmt.Sprintf("192.0.2.%d", i))
			attempt, _, err := limiter.Reserve(f.Context(), attempts, client, who)
			check(f, err)
			switch {
			case attempt == nil:
			case n == 0:
				check(f, attempt.Succeeded(f.Context()))
			case n == 1:
				check(f, attempt.Abandoned(f.Context()))
			default:
				attempt.Failed()
			}
		}
	}
}

// TestKeysExpire: calls and logins create no key without a TTL but the counts of
// totals, which go with the account. All of an account is in one slot. The account,
// its tokens without an expiry and three keys for all accounts have no TTL either.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := newFleet(t, redisstore.Options{URL: server.URL()})
	expiring := store.Key{ID: "key_expiring", Account: account, Kind: token.Key, Name: "expiring", CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
	check(t, f.gates[0].CreateKey(t.Context(), expiring, hashOf(expiring.ID)))
	f.use()
	forever := map[string]bool{
		"tollgate:layout": true, "tollgate:accounts": true, "tollgate:keys": true, "tollgate:{" + account + "}:a": true,
		fmt.Sprintf("tollgate:t:%x", f.hash): true, "tollgate:n:key_" + account: true,
	}
	for _, holder := range []string{"", ":key_" + account, ":~calls"} {
		forever["tollgate:{"+account+"}:u:999912"+holder] = true
	}
	kinds := map[string]int{}
	for _, key := range keysOf(t, server, "*") {
		ttl := do(t, server, "TTL", key)
		const expired = -2 // since keysOf, such as the pace of a second
		if got := ttl.(int64) < 0; got != forever[key] && ttl.(int64) != expired {
			t.Errorf("%s has the TTL %d", key, ttl)
		}
		delete(forever, key)
		if strings.Contains(key, account) && !strings.HasPrefix(key, "tollgate:{"+account+"}:") && !strings.HasPrefix(key, "tollgate:n:") {
			t.Errorf("%s is not in the slot of its account", key)
		}
		kind, _, _ := strings.Cut(strings.Replace(key, "{"+account+"}:", "account ", 1)[len("tollgate:"):], ":")
		kinds[kind]++
	}
	if len(forever) > 0 {
		t.Errorf("there are no %v", forever)
	}
	for _, kind := range []string{"account a", "account s", "account u", "account b", "t", "n", "c", "e", "check", "s"} {
		if kinds[kind] == 0 {
			t.Errorf("there is no key of the kind %s: %v", kind, kinds)
		}
	}
	t.Log(kinds)

	check(t, f.gates[0].DeleteAccount(t.Context(), account))
	counts := regexp.MustCompile(`:u:2\d{5}(:~credited|:~overage)?$|:s:[inx]$`)
	for _, row := range do(t, server, "HKEYS", "tollgate:{"+account+"}:s:n").([]any) {
		if !strings.HasPrefix(row.(string), book.KeptPrefix+"credit") {
			t.Errorf("the row %s is left of a deleted account", row)
		}
	}
	for _, key := range keysOf(t, server, "*") {
		if strings.Contains(key, account) && !strings.Contains(key, ":b:") && !counts.MatchString(key) || strings.HasPrefix(key, "tollgate:t:") || strings.HasPrefix(key, "tollgate:n:") {
			t.Errorf("%s is left of a deleted account", key)
		}
	}
}

// TestConfirmUnchanged: the server sends no document to a gate that has it.
func TestConfirmUnchanged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := newFleet(t, redisstore.Options{URL: server.URL()})
	for i := range 50 {
		newKey(t, f.gates[0], account, fmt.Sprint("key_", i))
	}
	size := do(t, server, "HSTRLEN", accountKey, "k").(int64)
	sent := func() int64 {
		bytes := regexp.MustCompile(`total_net_output_bytes:(\d+)`).FindStringSubmatch(do(t, server, "INFO", "stats").(string))
		n, err := strconv.ParseInt(bytes[1], 10, 64)
		check(t, err)
		return n
	}
	const confirms = 500
	confirm := func() {
		t.Helper()
		for range confirms {
			_, err := f.gates[1].Confirm(t.Context(), f.hash, f.gates[1].now())
			check(t, err)
		}
	}
	confirm()
	before := sent()
	confirm()
	if got := sent() - before; got > confirms*size/10 {
		t.Errorf("the server sent %d bytes for %d documents of %d bytes that have not changed", got, confirms, size)
	}
}
