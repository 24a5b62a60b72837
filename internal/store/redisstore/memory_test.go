package redisstore_test

import (
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestMemory measures what the server needs for an account and what belongs to
// it. docs/scaling.md states these sizes, give or take a tenth.
func TestMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStore(t, redisstore.Options{URL: server.URL()})
	now, january := time.Now(), calendar.UTCDay(time.Date(time.Now().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC))
	size := func(pattern string, of int64) (sum int64) {
		t.Helper()
		for _, key := range keysOf(t, server, pattern) {
			sum += do(t, server, "MEMORY", "USAGE", key, "SAMPLES", "0").(int64)
		}
		return sum / of
	}
	id := func(n int) string { return fmt.Sprintf("acc_%018dtest", n) }
	take := func(account string, days int, limits []store.Limit, endpoints ...string) {
		t.Helper()
		for day := range days {
			for _, endpoint := range endpoints {
				call := store.Call{Account: account, Endpoint: endpoint, Day: january + calendar.Day(day), Cost: 1234}
				if admitted, err := s.Take(t.Context(), call, limits, make([]store.Room, len(limits))); err != nil || !admitted {
					t.Fatalf("take: got %v, %v", admitted, err)
				}
			}
		}
	}
	const accounts, keys = 300, 10
	for n := range accounts {
		_, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: id(n), Plan: "starter", CreatedAt: now})
		check(t, err)
	}
	got := map[string]int64{"an account": size("tollgate:{*}:a", accounts) + size("tollgate:accounts", accounts)}

	record := store.Record{
		Account: id(1), KeyName: "server 1", At: now, Endpoint: "convert", Method: "GET", Path: "/api/convert/EUR/100/USD", Status: 200,
		Duration: 4_724_123, From: netip.MustParseAddr("203.0.113.25"),
	}
	for n := range keys {
		record.Key = fmt.Sprintf("key_%016d", n)
		check(t, s.CreateKey(t.Context(), store.Key{
			ID: record.Key, Account: id(1), Kind: token.Key, Name: fmt.Sprintf("server %d", n), Abilities: []string{"batch", "convert", "history"},
			Hint: "tgk_…AbCd", CreatedAt: now,
		}, hashOf(record.Key)))
		s.Record(record)
	}
	for n := range store.MaxRecent {
		record.At = record.At.Add(time.Duration(n*7919%1000) * time.Millisecond)
		record.Path, record.Duration = fmt.Sprintf("/api/convert/EUR/%d/USD", 7919*n%1000), time.Duration(4_724_123*n%100_000_000)
		s.Record(record)
	}
	_, err := s.Recent(t.Context(), id(1), now) // writes them
	check(t, err)
	got["a key"] = (size("tollgate:{"+id(1)+"}:a", 1)-size("tollgate:{"+id(2)+"}:a", 1))/keys + size("tollgate:t:*", keys) + size("tollgate:n:*", keys)
	got["the last 100 calls of an account"] = size("tollgate:{"+id(1)+"}:s:*", 1)

	take(id(2), 1, nil, "convert")
	take(id(3), 31, nil, "convert", "batch", "history")
	take(id(4), 1, []store.Limit{{Endpoint: store.All, Period: store.Hour, Max: 1_000_000}}, "convert")
	got["a month of counts, calls on 1 day, 1 endpoint"] = size("tollgate:{"+id(2)+"}:u:*", 1)
	got["a month of counts, calls on 31 days, 3 endpoints"] = size("tollgate:{"+id(3)+"}:u:*", 1)
	got["a pace in use, until it is full"] = size("tollgate:{"+id(4)+"}:b:*", 1)

	limiter := login.NewShared(s.redis.Attempts(), s.redis.Timeout(), outage.New(slog.New(slog.DiscardHandler), slog.LevelError, "login"))
	for n := range 10 {
		_, _, err := limiter.Reserve(t.Context(), login.Limits{}, login.ClientOf(fmt.Sprint("203.0.113.", n)), login.AccountOf("one@example.com"))
		check(t, err)
	}
	got["a client that tried to log in, for a minute"] = size("tollgate:c:*", 10)
	got["an e-mail with 10 failed logins, for 12 hours"] = size("tollgate:e:*", 1)

	for n := range 10 {
		c := &login.AddressCall{
			Client: login.ClientOf(fmt.Sprint("203.0.113.", n)), Calendar: calendar.In(time.UTC), Cost: 1,
			Limits: []store.Limit{{Endpoint: store.All, Period: store.Day, Max: 100}, {Endpoint: store.All, Period: store.Minute, Max: 10}},
		}
		_, err := limiter.Take(t.Context(), c, make([]store.Room, 2), false)
		check(t, err)
	}
	got["an address without a key, for a day or month"] = size("tollgate:a:*", 10)

	page, err := os.ReadFile("../../../docs/scaling.md")
	check(t, err)
	stated := map[string]int64{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9,]+) B \|`).FindAllStringSubmatch(string(page), -1) {
		stated[row[1]], err = strconv.ParseInt(strings.ReplaceAll(row[2], ",", ""), 10, 64)
		check(t, err)
	}
	one := got["an account"] + got["a key"] + got["the last 100 calls of an account"]
	if one > 4<<10 {
		t.Errorf("an account with a key and 100 calls needs %d B, want at most 4 KiB", one)
	}
	for what, bytes := range got {
		if math.Abs(float64(stated[what]-bytes)) > float64(bytes)/10 {
			t.Errorf("docs/scaling.md states %d B for %q, which needs %d B", stated[what], what, bytes)
		}
	}
}
