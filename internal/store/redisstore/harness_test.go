package redisstore_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// patience is the longest wait for a condition. Only a failing test waits that
// long.
const patience = 30 * time.Second

// await waits until a condition is true.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s", what)
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do sends a command to a server, and returns the reply.
func do(t testing.TB, server *redistest.Server, command ...string) any {
	t.Helper()
	reply, err := server.Do(command...)
	check(t, err)
	return reply
}

// keysOf returns the keys of a server with names of a pattern.
func keysOf(t testing.TB, server *redistest.Server, pattern string) (keys []string) {
	t.Helper()
	for _, key := range do(t, server, "KEYS", pattern).([]any) {
		keys = append(keys, key.(string))
	}
	return keys
}

// gate is a store with its book, as a gate has it.
type gate struct {
	*storetest.Store
	redis *redisstore.Store
}

func (g *gate) Close() error { return errors.Join(g.Store.Close(), g.redis.Close()) }

func (g *gate) now() time.Time { return g.redis.Now() }

// put writes an account.
func put(t testing.TB, s *gate, id string) error {
	_, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: id, Plan: "starter"})
	return err
}

// times returns how often a test does something.
func times(long int) int {
	if storetest.Long() {
		return long
	}
	return max(1, long/20)
}

// openAny opens a store that may never work.
func openAny(t testing.TB, o redisstore.Options) *gate {
	t.Helper()
	opened, err := redisstore.Open(o)
	check(t, err)
	s := &gate{storetest.New(opened), opened}
	t.Cleanup(func() { s.Close() }) // it fails if the server is gone
	return s
}

// openStore opens a store and waits until it works. Without a timeout it has a
// long one, for slow machines.
func openStore(t testing.TB, o redisstore.Options) *gate {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	s := openAny(t, o)
	await(t, "the store to work", func() bool { return s.Check(t.Context()) == nil })
	return s
}

// openReady opens a store and creates the account.
func openReady(t testing.TB, o redisstore.Options) *gate {
	t.Helper()
	s := openStore(t, o)
	await(t, "the account", func() bool { return put(t, s, account) == nil })
	return s
}

// journal collects what a store logs.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func (j *journal) has(text string) bool { return j.count(text) > 0 }

func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

// today is the day of calls. It does not change at midnight, so that a test
// counts on one day.
func today() calendar.Day { return calendar.Day(time.Now().Unix() / int64(24*time.Hour/time.Second)) }

func hashOf(text string) token.Hash { return sha256.Sum256([]byte(text)) }

// newAccount creates an account with one key, and returns the hash of the
// key's token.
func newAccount(t testing.TB, s *gate, id string) token.Hash {
	t.Helper()
	_, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: id, Plan: "starter", CreatedAt: time.Now()})
	check(t, err)
	return newKey(t, s, id, "key_"+id)
}

func newKey(t testing.TB, s *gate, account, id string) token.Hash {
	t.Helper()
	hash := hashOf(id)
	key := store.Key{ID: id, Account: account, Kind: token.Key, Name: id, Abilities: []string{"convert"}, CreatedAt: time.Now()}
	check(t, s.CreateKey(t.Context(), key, hash))
	return hash
}

// fleet is several gates with one account. Each has a store of its own.
type fleet struct {
	testing.TB
	gates  []*gate
	admin  *gate // with a long timeout
	hash   token.Hash
	handle store.Handle // of the account
	day    calendar.Day
}

const account = "acc_1"

// newFleet opens three stores and creates an account.
func newFleet(t testing.TB, o redisstore.Options) *fleet {
	t.Helper()
	f := &fleet{TB: t, day: today()}
	for range 3 {
		f.gates = append(f.gates, openStore(t, o))
	}
	o.Timeout = 0
	f.admin = openStore(t, o)
	f.hash = newAccount(t, f.admin, account)
	grant, err := f.admin.Confirm(t.Context(), f.hash, time.Now())
	check(t, err)
	f.handle = grant.Handle
	return f
}

// call returns a call to the endpoint convert.
func (f *fleet) call() store.Call {
	return store.Call{Account: account, Endpoint: "convert", Day: f.day, Handle: f.handle}
}

// maxDecisions is how often a gate decides a call.
const maxDecisions = 20

// decide takes a call as a gate does: again with a new grant if the grant was
// out of date. It returns the grant that decided.
func decide(ctx context.Context, s *gate, hash token.Hash, call store.Call, limits []store.Limit) (admitted bool, grant store.Grant, err error) {
	rooms := make([]store.Room, len(limits))
	read := s.Grant
	for range maxDecisions {
		if grant, err = read(ctx, hash, s.now()); err != nil {
			return false, grant, err
		}
		call.Account, call.Handle, call.Version, call.Until = grant.Account, grant.Handle, grant.Version, grant.Until
		if admitted, err = s.Take(ctx, call, limits, rooms); !errors.Is(err, store.ErrChanged) {
			return admitted, grant, err
		}
		read = s.Confirm
	}
	return false, grant, err
}

// take takes a call that must not fail.
func (f *fleet) take(gate int, call store.Call, limits []store.Limit) bool {
	f.Helper()
	admitted, _, err := decide(f.Context(), f.gates[gate], f.hash, call, limits)
	if err != nil {
		f.Fatalf("a call through store %d: %v", gate, err)
	}
	return admitted
}

// used returns what has been counted of an account, by each of the counters
// of the day, the month and all endpoints.
func (f *fleet) used(gate int, call store.Call) int64 {
	f.Helper()
	const most = 1 << 50
	limits := []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: most}, {Endpoint: "convert", Period: store.Month, Max: most},
		{Endpoint: store.All, Period: store.Day, Max: most}, {Endpoint: store.All, Period: store.Month, Max: most},
	}
	if call.Key != "" {
		limits = append(limits, store.Limit{Endpoint: "convert", Period: store.Day, Max: most, OfKey: true})
	}
	rooms := make([]store.Room, len(limits))
	await(f, "the counts", func() bool { return f.gates[gate].Rooms(f.Context(), call, limits, rooms) == nil })
	for i, room := range rooms {
		if room != rooms[0] {
			f.Errorf("%+v has used %d, the first limit %d", limits[i], most-room.Remaining, most-rooms[0].Remaining)
		}
	}
	return most - rooms[0].Remaining
}

func daily(most int64) []store.Limit {
	return []store.Limit{{Endpoint: "convert", Period: store.Day, Max: most}}
}

// allKinds are limits of each kind, and allTotals those of totals. A call with them
// counts in seven hashes.
func allKinds(most int64) []store.Limit {
	return append(allTotals(most), []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: most, OfKey: true},
		{Endpoint: "convert", Period: store.Week, Max: most, Soft: true, Included: 1},
		{Endpoint: store.All, Period: store.Month, Max: most},
		{Endpoint: store.All, Period: store.Day, Max: most, Calls: true},
		{Endpoint: "convert", Period: store.Minute, Max: 4 * most, Calls: true},
		{Endpoint: "convert", Period: store.Hour, Max: 4 * most},
	}...)
}

func allTotals(most int64) []store.Limit {
	return []store.Limit{
		{Endpoint: "convert", Period: store.Total, Max: most}, {Endpoint: store.All, Period: store.Total, Max: most, OfKey: true},
		{Endpoint: "convert", Period: store.Total, Max: most, Calls: true},
	}
}

// prefix returns a prefix of its own for each test, so that tests can share a
// server.
func prefix(t testing.TB) string {
	sum := sha256.Sum256([]byte(t.Name()))
	return fmt.Sprintf("t%x", sum[:8])
}
