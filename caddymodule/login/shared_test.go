package login_test

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/login/logintest"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
)

func newShared(cells login.Cells) *login.Shared {
	return login.NewShared(cells, time.Minute, outage.New(slog.New(slog.DiscardHandler), slog.LevelError, "test"))
}

// gates are limiters that share cells, with a clock that the test moves. The
// clocks of the gates are wrong.
type gates struct {
	testing.TB
	cells  *logintest.Cells
	gates  []*login.Shared
	next   atomic.Int64
	log    bytes.Buffer
	now    time.Time
	limits login.Limits
}

func newGates(t testing.TB, limits login.Limits) *gates {
	g := &gates{TB: t, cells: new(logintest.Cells), now: start, limits: limits}
	outages := outage.New(slog.New(slog.NewTextHandler(&g.log, nil)), slog.LevelError, "limiting logins")
	for range 3 {
		g.gates = append(g.gates, login.NewShared(g.cells, time.Minute, outages))
	}
	g.cells.SetClock(start)
	return g
}

func (g *gates) pass(d time.Duration) {
	g.now = g.now.Add(d)
	g.cells.SetClock(g.now)
}

// try makes an attempt at the next gate.
func (g *gates) try(address, email string) (login.Attempt, time.Duration) {
	g.Helper()
	gate := g.gates[int(g.next.Add(1))%len(g.gates)]
	wrong := g.now.Add(-24 * time.Hour)
	attempt, wait, err := gate.Reserve(g.Context(), wrong, g.limits, login.ClientOf(address), login.AccountOf(email))
	if err != nil {
		g.Errorf("Reserve(%q, %q): %v", address, email, err)
	}
	return attempt, wait
}

func (g *gates) admit(address, email string) login.Attempt {
	g.Helper()
	attempt, wait := g.try(address, email)
	if attempt == nil {
		g.Fatalf("%s at %s: refused for %v, want admitted", address, email, wait)
	}
	return attempt
}

func (g *gates) refuse(address, email string, want time.Duration) {
	g.Helper()
	attempt, wait := g.try(address, email)
	if attempt != nil || wait != want {
		g.Fatalf("%s at %s: got admitted %t, wait %v; want refused for %v", address, email, attempt != nil, wait, want)
	}
}

func (g *gates) fail(address, email string, times int) {
	g.Helper()
	for range times {
		g.admit(address, email).Failed()
	}
}

func (g *gates) succeed(address, email string) {
	g.Helper()
	if err := g.admit(address, email).Succeeded(g.Context(), g.now.AddDate(1, 0, 0)); err != nil {
		g.Fatalf("Succeeded: %v", err)
	}
}

// Each read and each change is a request to the server.
func TestSharedRequestsOfALogin(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{PerClient: 2})
	for _, test := range []struct {
		name         string
		attempt      func()
		reads, swaps int
	}{
		{"success", func() { g.succeed("192.0.2.1", "a") }, 4, 4},
		{"failure", func() { g.fail("192.0.2.1", "a", 1) }, 2, 2},
		{"without an account", func() { g.fail("192.0.2.1", "", 1) }, 1, 1},
		{"refused", func() { g.refuse("192.0.2.1", "a", time.Minute) }, 2, 0},
	} {
		reads, swaps := g.cells.Calls()
		test.attempt()
		gotReads, gotSwaps := g.cells.Calls()
		if gotReads -= reads; gotReads != test.reads {
			t.Errorf("%s: got %d reads, want %d", test.name, gotReads, test.reads)
		}
		if gotSwaps -= swaps; gotSwaps != test.swaps {
			t.Errorf("%s: got %d changes, want %d", test.name, gotSwaps, test.swaps)
		}
	}
}

// Another server with an earlier clock takes over. The waits of an account go
// on where they were.
func TestSharedClockSetBackAtAnAccount(t *testing.T) {
	t.Parallel()
	g := newGates(t, loose)
	g.succeed("192.0.2.1", "a")
	g.fail("192.0.2.1", "a", 10)
	g.fail("192.0.2.2", "a", 10)
	g.pass(-time.Hour)
	g.refuse("192.0.2.1", "a", 30*time.Second)
	g.pass(10 * time.Second)
	g.refuse("192.0.2.2", "a", 20*time.Second)
	g.refuse("192.0.2.1", "a", 20*time.Second)
	g.pass(20 * time.Second)
	g.fail("192.0.2.1", "a", 1)
	g.fail("192.0.2.2", "a", 1)
	g.refuse("192.0.2.1", "a", time.Minute)
	g.refuse("192.0.2.2", "a", time.Minute)
}
