package redisstore_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// TestMemory measures what the server needs for an account and what belongs to
// it, and compares it with the table of docs/scaling.md.
func TestMemory(t *testing.T) {
	t.Parallel()
	m := openMemory(t)
	got := map[string]int64{}
	maps.Copy(got, m.accounts())
	maps.Copy(got, m.keys())
	maps.Copy(got, m.counts())
	maps.Copy(got, m.logins())
	got["the last 100 calls of an account"] = m.recent()
	for _, what := range slices.Sorted(maps.Keys(got)) {
		t.Logf("%-60s %5d B", what, got[what])
	}
	m.needVersion()
	stated := statedMemory(t)
	for what, bytes := range got {
		is, found := stated[what]
		if !found {
			t.Errorf("docs/scaling.md does not state %q, which needs %d B", what, bytes)
		} else if math.Abs(float64(is-bytes)) > float64(bytes)/10 {
			t.Errorf("docs/scaling.md states %d B for %q, which needs %d B", is, what, bytes)
		}
	}
	if len(stated) != len(got) {
		t.Errorf("docs/scaling.md states %d sizes, the test measures %d", len(stated), len(got))
	}
}

var sizeRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9,]+) B \|`)

// statedMemory returns the sizes that docs/scaling.md states.
func statedMemory(t *testing.T) map[string]int64 {
	t.Helper()
	page, err := os.ReadFile("../../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string]int64{}
	for _, row := range sizeRow.FindAllStringSubmatch(string(page), -1) {
		if stated[row[1]], err = strconv.ParseInt(strings.ReplaceAll(row[2], ",", ""), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return stated
}

// memory measures the memory of a server with MEMORY USAGE.
type memory struct {
	*testing.T
	server *redistest.Server
	store  *redisstore.Store
	now    time.Time
}

func openMemory(t *testing.T) *memory {
	t.Helper()
	server := redistest.Start(t)
	s := openStore(t, redisstore.Options{URL: server.URL(), Timeout: 10 * time.Second})
	return &memory{t, server, s, time.Now()}
}

// needVersion ends the test if the server is not the one that the page has the
// sizes of. CI has that server, so there the test goes on.
func (m *memory) needVersion() {
	m.Helper()
	info := m.do("INFO", "everything").(string)
	if !strings.Contains(info, "redis_version:7.0.") || !strings.Contains(info, "mem_allocator:jemalloc") {
		if os.Getenv("CI") != "true" {
			m.Skip("docs/scaling.md has the sizes of Redis 7.0 with jemalloc")
		}
	}
}

func (m *memory) do(command ...string) any {
	m.Helper()
	reply, err := m.server.Do(command...)
	if err != nil {
		m.Fatal(err)
	}
	return reply
}

// used returns the bytes of all keys with names of a pattern, and how many
// there are.
func (m *memory) used(pattern string) (bytes, count int64) {
	m.Helper()
	for _, key := range m.do("KEYS", pattern).([]any) {
		bytes += m.do("MEMORY", "USAGE", key.(string), "SAMPLES", "0").(int64)
		count++
	}
	return bytes, count
}

// one returns the bytes of the only key with a name of a pattern.
func (m *memory) one(pattern string) int64 {
	m.Helper()
	bytes, count := m.used(pattern)
	if count != 1 {
		m.Fatalf("%d keys have the pattern %q", count, pattern)
	}
	return bytes
}

// forget deletes the keys with names of a pattern.
func (m *memory) forget(pattern string) {
	m.Helper()
	for _, key := range m.do("KEYS", pattern).([]any) {
		m.do("DEL", key.(string))
	}
}

// newAccount makes an account with an id as upstream makes them.
func (m *memory) newAccount() string {
	m.Helper()
	random, err := token.NewID(rand.Reader)
	if err != nil {
		m.Fatal(err)
	}
	id := "acc_" + random + "test"
	if _, err := storetest.PutAccount(m.Context(), m.store, store.Account{ID: id, Plan: "starter", CreatedAt: m.now}); err != nil {
		m.Fatal(err)
	}
	return id
}

// newKey makes a key or a login token of an account, and uses it.
func (m *memory) newKey(account, name string, kind token.Kind, expires time.Time) {
	m.Helper()
	made, err := token.New(kind, rand.Reader)
	if err != nil {
		m.Fatal(err)
	}
	random, err := token.NewID(rand.Reader)
	if err != nil {
		m.Fatal(err)
	}
	err = m.store.CreateKey(m.Context(), store.Key{
		ID: "key_" + random, Account: account, Kind: kind, Name: name, Abilities: []string{"batch", "convert", "history"},
		Hint: token.Hint(made.Reveal()), CreatedAt: m.now, ExpiresAt: expires,
	}, made.Hash())
	if err != nil {
		m.Fatal(err)
	}
	m.store.Record(store.Record{
		Account: account, Key: "key_" + random, KeyName: name, At: m.now, Endpoint: "convert", Method: "GET",
		Path: "/api/convert/EUR/100/USD", Status: 200, Duration: time.Millisecond, From: netip.MustParseAddr("203.0.113.25"),
	})
	if _, err := m.store.Recent(m.Context(), account, m.now); err != nil { // writes the last use
		m.Fatal(err)
	}
}

// accounts measures an account and its place in the list of all accounts.
func (m *memory) accounts() map[string]int64 {
	const many = 300
	for range many {
		m.newAccount()
	}
	bytes, count := m.used("tollgate:{*}:a")
	list := m.one("tollgate:accounts")
	return map[string]int64{"an account": bytes/count + list/count}
}

// keys measures ten keys and ten login tokens of an account.
func (m *memory) keys() map[string]int64 {
	const many = 10
	withKeys, withLogins := m.newAccount(), m.newAccount()
	for n := range many {
		m.newKey(withKeys, fmt.Sprintf("server %d", n), token.Key, time.Time{})
	}
	entries, _ := m.used("tollgate:t:*")
	for range many {
		m.newKey(withLogins, "login", token.Login, m.now.Add(24*time.Hour))
	}
	both, _ := m.used("tollgate:t:*")
	return map[string]int64{
		"a key": m.one("tollgate:{"+withKeys+"}:k")/many + entries/many,
		"a login token, until 48 hours after it expires": m.one("tollgate:{"+withLogins+"}:k")/many + (both-entries)/many,
		"of these, the entry of a token":                 entries / many,
	}
}

// counts measures months with calls on each of 31 days, and a bucket.
func (m *memory) counts() map[string]int64 {
	sizes := map[string]int64{}
	january := calendar.Day(time.Date(m.now.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix() / int64(24*time.Hour/time.Second))
	take := func(days int, limits []store.Limit, endpoints ...string) string {
		account := m.newAccount()
		for day := range days {
			for _, endpoint := range endpoints {
				call := store.Call{Account: account, Endpoint: endpoint, Day: january + calendar.Day(day), Cost: 1234}
				if admitted, err := m.store.Take(m.Context(), call, limits, make([]store.Room, len(limits))); err != nil || !admitted {
					m.Fatalf("take: got %v, %v", admitted, err)
				}
			}
		}
		return account
	}
	ofMonth := func(days int, endpoints ...string) int64 {
		return m.one("tollgate:{" + take(days, nil, endpoints...) + "}:u:*")
	}
	sizes["a month of counts, calls on 1 day, 1 endpoint"] = ofMonth(1, "convert")
	sizes["a month of counts, calls on 31 days, 1 endpoint"] = ofMonth(31, "convert")
	sizes["a month of counts, calls on 31 days, 3 endpoints"] = ofMonth(31, "convert", "batch", "history")
	sizes["a pace in use, until it is full"] = m.one("tollgate:{" +
		take(1, []store.Limit{{Endpoint: store.All, Period: store.Hour, Max: 1_000_000}}, "convert") + "}:b:*")
	return sizes
}

// recent measures a full list of recent calls.
func (m *memory) recent() int64 {
	account := m.newAccount()
	m.newKey(account, "server 1", token.Key, time.Time{})
	for n := range store.MaxRecent {
		m.store.Record(store.Record{
			Account: account, Key: "key_z5rCrGTwak8Kcjty", KeyName: "server 1", At: m.now.Add(time.Duration(n) * time.Second), Endpoint: "convert",
			Method: "GET", Path: "/api/convert/EUR/100/USD", Status: 200, Duration: 4_724_123,
		})
	}
	list, err := m.store.Recent(m.Context(), account, m.now)
	if err != nil || len(list) != store.MaxRecent {
		m.Fatalf("recent: got %d calls, %v", len(list), err)
	}
	return m.one("tollgate:{" + account + "}:r")
}

// logins measures failed attempts to log in.
func (m *memory) logins() map[string]int64 {
	var log bytes.Buffer
	limiter := login.NewShared(m.store.Attempts(), 10*time.Second, outage.New(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelError, "login"))
	try := func(address, email string) login.Attempt {
		attempt, wait, err := limiter.Reserve(m.Context(), m.now, login.Limits{}, login.ClientOf(address), login.AccountOf(email))
		if err != nil || attempt == nil || log.Len() > 0 {
			m.Fatalf("reserve: got a wait of %v, %v, log %q", wait, err, &log)
		}
		return attempt
	}
	try("203.0.113.25", "one@example.com")
	sizes := map[string]int64{
		"a client that tried to log in, for a minute": m.one("tollgate:c:*"),
		"an e-mail with 1 failed login, for 12 hours": m.one("tollgate:e:*"),
	}
	m.forget("tollgate:e:*")
	for n := range 10 {
		try(fmt.Sprintf("203.0.113.%d", n), "one@example.com")
	}
	sizes["an e-mail with 10 failed logins, for 12 hours"] = m.one("tollgate:e:*")
	m.forget("tollgate:e:*")
	if err := try("203.0.113.26", "one@example.com").Succeeded(m.Context(), m.now); err != nil {
		m.Fatal(err)
	}
	sizes["an e-mail with a login from 1 client, for 30 days"] = m.one("tollgate:e:*")
	return sizes
}
