package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/login/logintest"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// sharedGates are limiters with connections of their own.
type sharedGates struct {
	testing.TB
	stores []*gate
	gates  []*login.Limiter
	next   atomic.Int64
	log    bytes.Buffer
	limits login.Limits
}

func openGates(t testing.TB, url string, timeout time.Duration) *sharedGates {
	g := &sharedGates{TB: t}
	outages := outage.New(slog.New(slog.NewTextHandler(&g.log, nil)), slog.LevelError, "limiting logins")
	for range 3 {
		s := openStore(t, redisstore.Options{URL: url, Timeout: timeout})
		g.stores, g.gates = append(g.stores, s), append(g.gates, login.NewShared(s.redis.Attempts(), timeout, outages))
	}
	return g
}

// work returns whether all stores work.
func (g *sharedGates) work() bool {
	return !slices.ContainsFunc(g.stores, func(s *gate) bool { return s.Check(g.Context()) != nil })
}

func (g *sharedGates) try(address, email string) (*login.Attempt, time.Duration) {
	g.Helper()
	gate := g.gates[int(g.next.Add(1))%len(g.gates)]
	attempt, wait, err := gate.Reserve(g.Context(), g.limits, login.ClientOf(address), login.AccountOf(email))
	if err != nil {
		g.Errorf("Reserve(%q, %q): %v", address, email, err)
	}
	return attempt, wait
}

func (g *sharedGates) admit(address, email string) *login.Attempt {
	g.Helper()
	attempt, wait := g.try(address, email)
	if attempt == nil {
		g.Fatalf("%s at %s: refused for %v, want admitted", address, email, wait)
	}
	return attempt
}

func (g *sharedGates) fail(address, email string, times int) {
	g.Helper()
	for range times {
		g.admit(address, email).Failed()
	}
}

func always(text string) func(int) string { return func(int) string { return text } }

// guess makes parallel attempts and returns how many were admitted.
func (g *sharedGates) guess(times int, address, email func(int) string) int64 {
	var through atomic.Int64
	var group sync.WaitGroup
	for i := range times {
		group.Go(func() {
			if attempt, _ := g.try(address(i), email(i)); attempt != nil {
				through.Add(1)
				attempt.Failed()
			}
		})
	}
	group.Wait()
	return through.Load()
}

// refuse expects a refusal for at most a wait.
func (g *sharedGates) refuse(address, email string, most time.Duration) {
	g.Helper()
	if attempt, wait := g.try(address, email); attempt != nil || wait <= 0 || wait > most {
		g.Fatalf("%s at %s: got admitted %t, wait %v; want refused for at most %v",
			address, email, attempt != nil, wait, most)
	}
}

var keyName = regexp.MustCompile(`^tollgate:[ace]:\{[0-9A-Za-z_-]{22}\}$`)

// checkKeys checks that each key has a hashed name and expires.
func checkKeys(t testing.TB, server *redistest.Server, want int) {
	t.Helper()
	keys := keysOf(t, server, "tollgate:[ace]:*")
	if len(keys) != want {
		t.Errorf("got the keys %q, want %d", keys, want)
	}
	for _, key := range keys {
		if ttl := do(t, server, "PTTL", key).(int64); ttl <= 0 || !keyName.MatchString(key) {
			t.Errorf("key %q: got the TTL %d, want one, and the hash of a client or an e-mail", key, ttl)
		}
	}
}

// Threat: 50 guesses are sent to three gates at once. Expected: exactly the
// allowance gets through. In a cluster, the cells of a client and of an e-mail can
// be on different servers.
func TestAttemptsParallelGuesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, url := range []string{server.URL(), redistest.StartCluster(t, 3).URL()} {
		clients := func(i int) string { return fmt.Sprint("192.0.2.", i) }
		if got := openGates(t, url, 10*time.Second).guess(50, clients, always("victim")); got != 10 {
			t.Errorf("%s: got %d guesses at an account through, want 10", url, got)
		}
	}
	checkKeys(t, server, 11)
}

func TestAttemptsAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckModel(t, clocked(t))
}

func TestAddressesAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckAddresses(t, clocked(t))
}

// clocked returns gates of a server, whose clock the test sets.
func clocked(t *testing.T) func(t *rapid.T) logintest.Setup {
	server := redistest.Start(t)
	o := redisstore.Options{URL: server.URL()}
	cells := []*logintest.Clock{{Cells: openStore(t, o).redis.Attempts()}, {Cells: openStore(t, o).redis.Attempts()}}
	outages := outage.New(slog.New(slog.DiscardHandler), slog.LevelError, "test")
	return func(t *rapid.T) logintest.Setup {
		if _, err := server.Do("FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		var gates []*login.Limiter
		for _, one := range cells {
			gates = append(gates, login.NewShared(one, time.Minute, outages))
		}
		return logintest.Setup{
			Next: func() *login.Limiter { return rapid.SampledFrom(gates).Draw(t, "gate") },
			SetClock: func(now time.Time) {
				for _, one := range cells {
					one.SetClock(now)
				}
			},
			StepsBack: true,
		}
	}
}

// Threat: an address calls three gates over 64 connections. Expected: it has its
// limit once, and its key ends with the day.
func TestAddressIsExact(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g := openGates(t, server.URL(), 10*time.Second)
	limits := []store.Limit{{Endpoint: store.All, Period: store.Day, Max: 40, OfAddress: true}, {Endpoint: store.All, Period: store.Hour, Max: 50, OfAddress: true}}
	var admitted atomic.Int64
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for range 3 {
				c := &login.AddressCall{Client: login.ClientOf("192.0.2.1"), Calendar: calendar.In(time.UTC), Limits: limits, Cost: 1}
				ok, err := g.gates[i%len(g.gates)].Take(t.Context(), c, make([]store.Room, 2), false)
				if err != nil {
					t.Error(err)
				}
				if ok {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	if got := admitted.Load(); got != 40 {
		t.Errorf("admitted %d calls, want 40", got)
	}
	checkKeys(t, server, 1)
}

// Servers that stall or refuse changes do not decide: each gate decides alone, and
// all together again when the server is back.
func TestAttemptsOutage(t *testing.T) {
	t.Parallel()
	command := func(text string) func(*redistest.Server) error {
		return func(s *redistest.Server) error {
			_, err := s.Do(strings.Fields(text)...)
			return err
		}
	}
	for _, test := range []struct {
		name       string
		begin, end func(*redistest.Server) error
	}{
		{"stalled", (*redistest.Server).Pause, (*redistest.Server).Resume},
		{"replica", command("REPLICAOF 127.0.0.1 1"), command("REPLICAOF NO ONE")},
		{"out of memory", command("CONFIG SET maxmemory 1"), command("CONFIG SET maxmemory 0")},
		{"no replicas", command("CONFIG SET min-replicas-to-write 1"), command("CONFIG SET min-replicas-to-write 0")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			g := openGates(t, server.URL(), 2*time.Second)
			g.fail("192.0.2.1", "a", 5)
			g.refuse("192.0.2.1", "a", time.Minute)
			check(t, test.begin(server))
			if got, want := g.guess(50, always("192.0.2.1"), always("a")), int64(5*len(g.gates)); got != want {
				t.Errorf("got %d guesses through, want %d", got, want)
			}
			if !strings.Contains(g.log.String(), "level=ERROR") {
				t.Errorf("got the log %q, want the failure", &g.log)
			}
			check(t, test.end(server))
			await(t, "all stores", func() bool { return g.work() })
			g.fail("192.0.2.2", "a", 5)
			g.refuse("192.0.2.3", "a", 30*time.Second)
			checkKeys(t, server, 3)
		})
	}
}

func TestAttemptsSwap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cells := openStore(t, redisstore.Options{URL: server.URL()}).redis.Attempts()
	key := login.CellKey{Kind: login.ClientCell}
	soon, later := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	one, two := []byte("\x00\r\n\xff"), bytes.Repeat([]byte{1, 0}, 1<<14)
	for _, test := range []struct {
		name        string
		old         login.Cell
		change      login.Change
		want        []byte
		wantSwapped bool
	}{
		{"another value than none", login.Cell{Value: one, Until: soon}, login.Change{Value: two, Expires: later}, nil, false},
		{"new", login.Cell{Until: soon}, login.Change{Value: one, Expires: later}, one, true},
		{"none, though there is one", login.Cell{Until: soon}, login.Change{Value: two, Expires: later}, one, false},
		{"another value", login.Cell{Value: two, Until: soon}, login.Change{Value: one, Expires: later}, one, false},
		{"late", login.Cell{Value: one, Until: time.Now().Add(-time.Second)}, login.Change{Value: two, Expires: later}, one, false},
		{"replaced", login.Cell{Value: one, Until: soon}, login.Change{Value: two, Expires: later}, two, true},
		{"deleted", login.Cell{Value: two, Until: soon}, login.Change{Expires: later}, nil, true},
		{"expired", login.Cell{Until: soon}, login.Change{Value: one, Expires: time.Now().Add(-time.Hour)}, nil, true},
	} {
		cell, swapped, err := cells.Swap(t.Context(), key, test.old, test.change)
		if err != nil || swapped != test.wantSwapped {
			t.Errorf("%s: got swapped %t, %v, want %t", test.name, swapped, err, test.wantSwapped)
		}
		if test.name != "expired" && !bytes.Equal(cell.Value, test.want) {
			t.Errorf("%s: got the value %x, want %x", test.name, cell.Value, test.want)
		}
		read := readAttempts(t.Context(), t, cells, key)
		if !bytes.Equal(read.Value, test.want) || read.Now.Before(cell.Now) {
			t.Errorf("%s: read %x at %v, want %x after %v", test.name, read.Value, read.Now, test.want, cell.Now)
		}
		if len(read.Value) > 0 {
			at := do(t, server, "PEXPIRETIME", "tollgate:c:{AAAAAAAAAAAAAAAAAAAAAA}").(int64)
			if late := time.UnixMilli(at).Sub(later); late < 0 || late > time.Millisecond {
				t.Errorf("%s: expires %v late, want at most a millisecond", test.name, late)
			}
		}
	}
}

func readAttempts(ctx context.Context, t *testing.T, cells *redisstore.Attempts, key login.CellKey) login.Cell {
	t.Helper()
	read, err := cells.Read(ctx, key)
	if err != nil {
		t.Fatalf("reading login attempts: %v", err)
	}
	return read[0]
}

// A change whose caller has given up is not made when the server goes on.
func TestAttemptsLateChange(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cells := openStore(t, redisstore.Options{URL: server.URL()}).redis.Attempts()
	key := login.CellKey{Kind: login.AccountCell}
	// A change before loads the script: the late one is sent in one command.
	if _, _, err := cells.Swap(t.Context(), key, login.Cell{}, login.Change{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := t.Context(), func() {}
	var read []login.Cell
	await(t, "a read within the time", func() bool {
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		var err error
		read, err = cells.Read(ctx, key)
		return err == nil && read[0].Until.After(read[0].Now)
	})
	defer cancel()
	old := read[0]
	if left := old.Until.Sub(old.Now); left > 100*time.Millisecond {
		t.Errorf("got %v for a change, want at most the time that the caller waits", left)
	}
	check(t, server.Pause())
	_, _, err := cells.Swap(ctx, key, old, login.Change{Value: []byte("late"), Expires: old.Now.Add(time.Hour)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	check(t, server.Resume())
	// The connection is the same, so the server has executed the change.
	if cell := readAttempts(t.Context(), t, cells, key); len(cell.Value) > 0 {
		t.Errorf("got %q, want no value", cell.Value)
	}
}
