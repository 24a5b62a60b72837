package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/login/logintest"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
)

// attemptsServer is a Redis server of one test.
type attemptsServer struct {
	testing.TB
	socket  string
	process *os.Process
	admin   rueidis.Client
}

// startAttemptsServer starts a Redis server on a Unix socket. Without Redis
// installed the test is skipped, in CI it fails.
func startAttemptsServer(t testing.TB) *attemptsServer {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	directory, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	s := &attemptsServer{TB: t, socket: filepath.Join(directory, "socket")}
	server := exec.Command(program, "--port", "0", "--unixsocket", s.socket, "--dir", directory, "--save", "")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	s.process = server.Process
	s.waitFor("the server to start", func() bool {
		s.admin, err = s.connect()
		return err == nil
	})
	t.Cleanup(s.admin.Close)
	return s
}

func (s *attemptsServer) waitFor(what string, done func() bool) {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("waiting for %s", what)
		}
	}
}

func (s *attemptsServer) connect() (rueidis.Client, error) {
	option, err := rueidis.ParseURL("unix://" + s.socket)
	if err != nil {
		return nil, err
	}
	option.DisableCache, option.ForceSingleClient = true, true
	return rueidis.NewClient(option)
}

// open returns the attempts as a gate of its own has them.
func (s *attemptsServer) open(timeout time.Duration) *redisstore.Attempts {
	s.Helper()
	gate, err := redisstore.Open(redisstore.Options{URL: "unix://" + s.socket, Timeout: timeout})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { gate.Close() })
	s.waitFor("the store to connect", func() bool { return gate.Check(s.Context()) == nil })
	return gate.Attempts()
}

// command runs a command and returns its answer as text.
func (s *attemptsServer) command(words ...string) string {
	s.Helper()
	answer := s.admin.Do(s.Context(), s.admin.B().Arbitrary(words...).Build())
	if err := answer.Error(); err != nil {
		s.Fatalf("%q: %v", words, err)
	}
	return answer.String()
}

// stop stops the server as a stalled machine does, until its resume.
func (s *attemptsServer) stop() {
	s.Helper()
	s.process.Signal(syscall.SIGSTOP)
	s.waitFor("the server to stop", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Pid))
		return err == nil && strings.Contains(string(status), ") T ")
	})
}

func (s *attemptsServer) resume() { s.process.Signal(syscall.SIGCONT) }

var keyName = regexp.MustCompile(`^tollgate:[ce]:\{[0-9A-Za-z_-]{22}\}$`)

// checkKeys checks that each key has a hashed name and expires.
func (s *attemptsServer) checkKeys(want int) {
	s.Helper()
	keys, err := s.admin.Do(s.Context(), s.admin.B().Keys().Pattern("tollgate:[ce]:*").Build()).AsStrSlice()
	if err != nil || len(keys) != want {
		s.Errorf("got the keys %q, %v, want %d", keys, err, want)
	}
	for _, key := range keys {
		ttl, err := s.admin.Do(s.Context(), s.admin.B().Pttl().Key(key).Build()).AsInt64()
		if err != nil || ttl <= 0 {
			s.Errorf("key %q: got the TTL %d, %v, want one", key, ttl, err)
		}
		if !keyName.MatchString(key) {
			s.Errorf("got the key %q, want the hash of a client or an e-mail", key)
		}
	}
}

// sharedGates are limiters with connections of their own.
type sharedGates struct {
	testing.TB
	gates  []*login.Shared
	next   atomic.Int64
	log    bytes.Buffer
	limits login.Limits
}

func (s *attemptsServer) gates(timeout time.Duration) *sharedGates {
	g := &sharedGates{TB: s.TB}
	outages := outage.New(slog.New(slog.NewTextHandler(&g.log, nil)), slog.LevelError, "limiting logins")
	for range 3 {
		g.gates = append(g.gates, login.NewShared(s.open(timeout), timeout, outages))
	}
	return g
}

func (g *sharedGates) try(address, email string) (login.Attempt, time.Duration) {
	g.Helper()
	gate := g.gates[int(g.next.Add(1))%len(g.gates)]
	attempt, wait, err := gate.Reserve(g.Context(), time.Now(), g.limits, login.ClientOf(address), login.AccountOf(email))
	if err != nil {
		g.Errorf("Reserve(%q, %q): %v", address, email, err)
	}
	return attempt, wait
}

func (g *sharedGates) admit(address, email string) login.Attempt {
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

// guess makes parallel attempts and returns how many were admitted.
func (g *sharedGates) guess(times int, address, email string) int64 {
	var through atomic.Int64
	var group sync.WaitGroup
	for range times {
		group.Go(func() {
			if attempt, _ := g.try(address, email); attempt != nil {
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
		{"from a client", func(int) string { return "192.0.2.1" }, func(i int) string { return fmt.Sprint(i) }, 5, 6},
		{"at an account", func(i int) string { return fmt.Sprint("192.0.2.", i) }, func(int) string { return "victim" }, 10, 11},
		{"from a client at an account", func(int) string { return "192.0.2.1" }, func(int) string { return "victim" }, 5, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startAttemptsServer(t)
			g := s.gates(10 * time.Second)
			var through atomic.Int64
			var group sync.WaitGroup
			for i := range 50 {
				group.Go(func() {
					if attempt, _ := g.try(test.client(i), test.account(i)); attempt != nil {
						through.Add(1)
						attempt.Failed()
					}
				})
			}
			group.Wait()
			if got := through.Load(); got != test.want {
				t.Errorf("got %d guesses through, want %d", got, test.want)
			}
			s.checkKeys(test.keys)
		})
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
	cells := []*movedClock{{Attempts: s.open(10 * time.Second)}, {Attempts: s.open(10 * time.Second)}}
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
	s.stop()
	if got, want := g.guess(50, "192.0.2.1", "a"), int64(5*len(g.gates)); got != want {
		t.Errorf("got %d guesses through during the outage, want %d", got, want)
	}
	if !strings.Contains(g.log.String(), "deadline exceeded") {
		t.Errorf("got the log %q, want the failure", &g.log)
	}
	s.resume()
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
			if got, want := g.guess(50, "192.0.2.1", "a"), int64(5*len(g.gates)); got != want {
				t.Errorf("got %d guesses through, want %d", got, want)
			}
		})
	}
}

func TestAttemptsSwap(t *testing.T) {
	t.Parallel()
	s := startAttemptsServer(t)
	cells := s.open(10 * time.Second)
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
	at, err := s.admin.Do(s.Context(), s.admin.B().Pexpiretime().Key(key).Build()).AsInt64()
	if late := time.UnixMilli(at).Sub(want); err != nil || late < 0 || late > time.Millisecond {
		s.Errorf("got expiry %v late, %v, want at most a millisecond", late, err)
	}
}

// A change whose caller has given up is not made when the server goes on.
func TestAttemptsLateChange(t *testing.T) {
	t.Parallel()
	s := startAttemptsServer(t)
	cells := s.open(10 * time.Second)
	key := login.CellKey{Kind: login.AccountCell, ID: "id"}
	// A change before loads the script: the late one is sent in one command.
	cell, _, err := cells.Swap(t.Context(), key, login.Change{})
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	until := cell.Now
	_, _, err = cells.Swap(ctx, key, login.Change{New: []byte("late"), Until: until, Expires: until.Add(time.Hour)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	s.resume()
	// The connection is the same, so the server has executed the change.
	if cell, err = cells.Read(t.Context(), key); err != nil || len(cell.Value) > 0 {
		t.Errorf("got %q, %v, want no value", cell.Value, err)
	}
}

func TestAttemptsUnexpectedAnswer(t *testing.T) {
	t.Parallel()
	s := startAttemptsServer(t)
	s.command("HSET", "tollgate:c:{id}", "field", "value")
	cells := s.open(10 * time.Second)
	key := login.CellKey{Kind: login.ClientCell, ID: "id"}
	if _, err := cells.Read(t.Context(), key); err == nil {
		t.Error("reading a key of another type: got no error")
	}
	if _, _, err := cells.Swap(t.Context(), key, login.Change{}); err == nil {
		t.Error("replacing a key of another type: got no error")
	}
}
