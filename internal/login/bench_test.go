package login_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/login/logintest"
	"github.com/caddy-tollgate/tollgate/internal/outage"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// loose has a high limit per client, for tests of the rule per account.
var loose = login.Limits{PerClient: 1000}

// bench has limiters with a clock that the test moves. Each attempt goes to the
// next one.
type bench struct {
	testing.TB
	limits   login.Limits
	limiters []*login.Limiter
	next     atomic.Int64
	memory   *login.Memory    // of one limiter
	cells    *logintest.Cells // of several
	log      bytes.Buffer     // about their outages

	mu  sync.Mutex
	now time.Time
}

// newBench returns a limiter with cells in memory.
func newBench(t testing.TB, limits login.Limits) *bench {
	b := &bench{TB: t, limits: limits, now: start}
	b.use(login.NewMemory(b.clock, nil))
	return b
}

func (b *bench) use(memory *login.Memory) {
	b.memory, b.limiters = memory, []*login.Limiter{login.New(memory)}
}

// newGates returns limiters that share the cells of a server. The clocks of the
// gates are wrong.
func newGates(t testing.TB, limits login.Limits) *bench {
	b := &bench{TB: t, limits: limits, now: start, cells: logintest.NewCells()}
	b.cells.SetClock(start)
	outages := outage.New(slog.New(slog.NewTextHandler(&b.log, nil)), slog.LevelError, "limiting logins")
	for range 3 {
		gate := login.NewShared(b.cells, time.Minute, outages)
		gate.SetSpareClock(func() time.Time { return b.clock().Add(-24 * time.Hour) })
		b.limiters = append(b.limiters, gate)
	}
	return b
}

func newShared(cells login.Cells) *login.Limiter {
	return login.NewShared(cells, time.Minute, outage.New(slog.New(slog.DiscardHandler), slog.LevelError, "test"))
}

// eachLimiter runs a test with a limiter of one process and with those of
// several gates.
func eachLimiter(t *testing.T, limits login.Limits, test func(t *testing.T, b *bench)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		b, _ := newDurableBench(t, limits)
		test(t, b)
	})
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		test(t, newGates(t, limits))
	})
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
	if b.cells != nil {
		b.cells.SetClock(b.now)
	}
}

func (b *bench) try(address, email string) (*login.Attempt, time.Duration) {
	b.Helper()
	limiter := b.limiters[int(b.next.Add(1))%len(b.limiters)]
	attempt, wait, err := limiter.Reserve(context.Background(), b.limits, login.ClientOf(address), login.AccountOf(email))
	if err != nil {
		b.Errorf("Reserve(%q, %q): %v", address, email, err)
	}
	return attempt, wait
}

func (b *bench) admit(address, email string) *login.Attempt {
	b.Helper()
	attempt, wait := b.try(address, email)
	if attempt == nil {
		b.Fatalf("%s at %s: refused for %v, want admitted", address, email, wait)
	}
	return attempt
}

func (b *bench) fail(address, email string, times int) {
	b.Helper()
	for range times {
		b.admit(address, email).Failed()
	}
}

func (b *bench) succeed(address, email string) {
	b.Helper()
	if err := b.admit(address, email).Succeeded(context.Background()); err != nil {
		b.Fatalf("Succeeded: %v", err)
	}
}

func (b *bench) refuse(address, email string, want time.Duration) {
	b.Helper()
	if attempt, wait := b.try(address, email); attempt != nil || wait != want {
		b.Fatalf("%s at %s: got admitted %t, wait %v; want refused for %v", address, email, attempt != nil, wait, want)
	}
}
