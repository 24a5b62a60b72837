package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/login/logintest"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// attemptsServer is a Redis server of one test.
type attemptsServer struct {
	testing.TB
	*redistest.Server
}

func startAttemptsServer(t testing.TB) *attemptsServer {
	t.Helper()
	return &attemptsServer{t, redistest.Start(t)}
}

// open returns the attempts as a gate of its own has them.
func open(t testing.TB, url string, timeout time.Duration) *redisstore.Attempts {
	t.Helper()
	gate, err := redisstore.Open(redisstore.Options{URL: url, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if err = gate.Check(t.Context()); err == nil {
			return gate.Attempts()
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for the store to connect: %v", err)
		}
	}
}

// command runs a command and returns its reply.
func (s *attemptsServer) command(words ...string) any {
	s.Helper()
	reply, err := s.Do(words...)
	if err != nil {
		s.Fatalf("%q: %v", words, err)
	}
	return reply
}

func (s *attemptsServer) stall() {
	s.Helper()
	if err := s.Pause(); err != nil {
		s.Fatal(err)
	}
}

func (s *attemptsServer) goOn() {
	s.Helper()
	if err := s.Resume(); err != nil {
		s.Fatal(err)
	}
}

var keyName = regexp.MustCompile(`^tollgate:[ce]:\{[0-9A-Za-z_-]{22}\}$`)

// checkKeys checks that each key has a hashed name and expires.
func (s *attemptsServer) checkKeys(want int) {
	s.Helper()
	keys := s.command("KEYS", "tollgate:[ce]:*").([]any)
	if len(keys) != want {
		s.Errorf("got the keys %q, want %d", keys, want)
	}
	for _, one := range keys {
		key := one.(string)
		if ttl := s.command("PTTL", key).(int64); ttl <= 0 {
			s.Errorf("key %q: got the TTL %d, want one", key, ttl)
		}
		if !keyName.MatchString(key) {
			s.Errorf("got the key %q, want the hash of a client or an e-mail", key)
		}
	}
}

// Threat: 50 guesses are sent to three gates at once. Expected: exactly the
// allowance gets through.
func TestAttemptsParallelGuesses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name            string
		client, account func(int) string
		want            int64
		keys            int
	}{
		{"from a client", always("192.0.2.1"), func(i int) string { return fmt.Sprint(i) }, 5, 6},
		{"at an account", func(i int) string { return fmt.Sprint("192.0.2.", i) }, always("victim"), 10, 11},
		{"from a client at an account", always("192.0.2.1"), always("victim"), 5, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startAttemptsServer(t)
			g := s.gates(10 * time.Second)
			if got := g.guess(50, test.client, test.account); got != test.want {
				t.Errorf("got %d guesses through, want %d", got, test.want)
			}
			s.checkKeys(test.keys)
		})
	}
}

// The cells of a client and of an e-mail can be on different servers.
func TestAttemptsOnACluster(t *testing.T) {
	t.Parallel()
	g := openGates(t, redistest.StartCluster(t, 3).URL(), 10*time.Second)
	if got := g.guess(50, func(i int) string { return fmt.Sprint("192.0.2.", i) }, always("victim")); got != 10 {
		t.Errorf("got %d guesses at an account through, want 10", got)
	}
	if got := g.guess(50, always("198.51.100.1"), func(i int) string { return fmt.Sprint(i) }); got != 5 {
		t.Errorf("got %d guesses from a client through, want 5", got)
	}
	if g.log.Len() > 0 {
		t.Errorf("got the log %q, want none", &g.log)
	}
}

func TestAttemptsSuccess(t *testing.T) {
	t.Parallel()
	s := startAttemptsServer(t)
	g := s.gates(10 * time.Second)
	g.limits.PerClient = 1000
	g.fail("192.0.2.1", "a", 5)
	pending := g.admit("192.0.2.1", "a")
	if err := g.admit("192.0.2.1", "a").Succeeded(t.Context(), time.Now()); err != nil {
		t.Fatalf("Succeeded: %v", err)
	}
	pending.Failed()
	abandoned := g.admit("192.0.2.2", "a")
	if err := abandoned.Abandoned(t.Context()); err != nil {
		t.Fatalf("Abandoned: %v", err)
	}
	g.fail("192.0.2.9", "a", 10)
	g.refuse("192.0.2.9", "a", 30*time.Second)
	g.fail("192.0.2.1", "a", 9) // known, with a count of its own
	g.admit("192.0.2.1", "a")
	g.refuse("192.0.2.1", "a", 30*time.Second)
	s.checkKeys(4)
}

// movedClock lets the test set the clock, and Redis do the rest.
type movedClock struct {
	*redisstore.Attempts
	now time.Time
}

func (m *movedClock) Read(ctx context.Context, key login.CellKey) (login.Cell, error) {
	cell, err := m.Attempts.Read(ctx, key)
	cell.Now = m.now
	return cell, err
}

func (m *movedClock) Swap(ctx context.Context, key login.CellKey, change login.Change) (login.Cell, bool, error) {
	change.Until = time.Now().Add(time.Hour)
	change.Expires = time.Now().Add(max(time.Hour, change.Expires.Sub(m.now)))
	cell, swapped, err := m.Attempts.Swap(ctx, key, change)
	cell.Now = m.now
	return cell, swapped, err
}

func TestAttemptsAgainstModel(t *testing.T) {
	t.Parallel()
	s := startAttemptsServer(t)
	cells := []*movedClock{{Attempts: open(t, s.URL(), 10*time.Second)}, {Attempts: open(t, s.URL(), 10*time.Second)}}
	outages := outage.New(slog.New(slog.DiscardHandler), slog.LevelError, "test")
	logintest.CheckModel(t, func(t *rapid.T) logintest.Setup {
		s.command("FLUSHALL")
		var gates []*login.Shared
		for _, one := range cells {
			gates = append(gates, login.NewShared(one, time.Minute, outages))
		}
		return logintest.Setup{
			Next: func() logintest.Limiter { return rapid.SampledFrom(gates).Draw(t, "gate") },
			SetClock: func(now time.Time) {
				for _, one := range cells {
					one.now = now
				}
			},
		}
	})
}

// The server stalls: each gate decides alone, and all together again when the
// server is back.
func TestAttemptsOutage(t *testing.T) {
	t.Parallel()
	s := startAttemptsServer(t)
	g := s.gates(2 * time.Second)
	g.fail("192.0.2.1", "a", 5)
	g.refuse("192.0.2.1", "a", time.Minute)
	s.stall()
	if got, want := g.guess(50, always("192.0.2.1"), always("a")), int64(5*len(g.gates)); got != want {
		t.Errorf("got %d guesses through during the outage, want %d", got, want)
	}
	if !strings.Contains(g.log.String(), "deadline exceeded") {
		t.Errorf("got the log %q, want the failure", &g.log)
	}
	s.goOn()
	s.command("PING")
	g.fail("192.0.2.2", "a", 5)
	g.refuse("192.0.2.3", "a", 30*time.Second)
	s.checkKeys(3)
}

// Servers that refuse changes do not decide.
func TestAttemptsServerThatRefusesChanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		command []string
	}{
		{"replica", []string{"REPLICAOF", "127.0.0.1", "1"}},
		{"out of memory", []string{"CONFIG", "SET", "maxmemory", "1"}},
		{"no replicas", []string{"CONFIG", "SET", "min-replicas-to-write", "1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startAttemptsServer(t)
			g := s.gates(2 * time.Second)
			g.fail("192.0.2.1", "a", 5)
			s.command(test.command...)
			if got, want := g.guess(50, always("192.0.2.1"), always("a")), int64(5*len(g.gates)); got != want {
				t.Errorf("got %d guesses through, want %d", got, want)
			}
		})
	}
}

func TestAttemptsSwap(t *testing.T) {
	t.Parallel()
	s := startAttemptsServer(t)
	cells := open(t, s.URL(), 10*time.Second)
	key := login.CellKey{Kind: login.ClientCell, ID: "id"}
	soon, later := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	one, two := []byte("\x00\r\n\xff"), bytes.Repeat([]byte{1, 0}, 1<<14)
	for _, test := range []struct {
		name        string
		change      login.Change
		want        []byte
		wantSwapped bool
	}{
		{"another value than none", login.Change{Old: one, New: two, Until: soon, Expires: later}, nil, false},
		{"new", login.Change{New: one, Until: soon, Expires: later}, one, true},
		{"none, though there is one", login.Change{New: two, Until: soon, Expires: later}, one, false},
		{"another value", login.Change{Old: two, New: one, Until: soon, Expires: later}, one, false},
		{"late", login.Change{Old: one, New: two, Until: time.Now().Add(-time.Second), Expires: later}, one, false},
		{"replaced", login.Change{Old: one, New: two, Until: soon, Expires: later}, two, true},
		{"deleted", login.Change{Old: two, Until: soon, Expires: later}, nil, true},
		{"expired", login.Change{New: one, Until: soon, Expires: time.Now().Add(-time.Hour)}, nil, true},
	} {
		cell, swapped, err := cells.Swap(t.Context(), key, test.change)
		if err != nil || swapped != test.wantSwapped {
			t.Errorf("%s: got swapped %t, %v, want %t", test.name, swapped, err, test.wantSwapped)
		}
		if test.name != "expired" && !bytes.Equal(cell.Value, test.want) {
			t.Errorf("%s: got the value %x, want %x", test.name, cell.Value, test.want)
		}
		read, err := cells.Read(t.Context(), key)
		if err != nil || !bytes.Equal(read.Value, test.want) || read.Now.Before(cell.Now) {
			t.Errorf("%s: read %x at %v, %v, want %x after %v", test.name, read.Value, read.Now, err, test.want, cell.Now)
		}
		if err == nil && len(read.Value) > 0 {
			s.checkExpiry("tollgate:c:{id}", later)
		}
	}
}

func (s *attemptsServer) checkExpiry(key string, want time.Time) {
	s.Helper()
	at := s.command("PEXPIRETIME", key).(int64)
	if late := time.UnixMilli(at).Sub(want); late < 0 || late > time.Millisecond {
		s.Errorf("got expiry %v late, want at most a millisecond", late)
	}
}

// A change whose caller has given up is not made when the server goes on.
func TestAttemptsLateChange(t *testing.T) {
	t.Parallel()
	s := startAttemptsServer(t)
	cells := open(t, s.URL(), 10*time.Second)
	key := login.CellKey{Kind: login.AccountCell, ID: "id"}
	// A change before loads the script: the late one is sent in one command.
	cell, _, err := cells.Swap(t.Context(), key, login.Change{})
	if err != nil {
		t.Fatal(err)
	}
	s.stall()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	until := cell.Now
	_, _, err = cells.Swap(ctx, key, login.Change{New: []byte("late"), Until: until, Expires: until.Add(time.Hour)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	s.goOn()
	// The connection is the same, so the server has executed the change.
	if cell, err = cells.Read(t.Context(), key); err != nil || len(cell.Value) > 0 {
		t.Errorf("got %q, %v, want no value", cell.Value, err)
	}
}

func TestAttemptsUnexpectedAnswer(t *testing.T) {
	t.Parallel()
	s := startAttemptsServer(t)
	s.command("HSET", "tollgate:c:{id}", "field", "value")
	cells := open(t, s.URL(), 10*time.Second)
	key := login.CellKey{Kind: login.ClientCell, ID: "id"}
	if _, err := cells.Read(t.Context(), key); err == nil {
		t.Error("reading a key of another type: got no error")
	}
	if _, _, err := cells.Swap(t.Context(), key, login.Change{}); err == nil {
		t.Error("replacing a key of another type: got no error")
	}
}
