package redisstore_test

import (
	"bytes"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
)

// sharedGates are limiters with connections of their own.
type sharedGates struct {
	testing.TB
	gates  []*login.Shared
	next   atomic.Int64
	log    bytes.Buffer
	limits login.Limits
}

func (s *attemptsServer) gates(timeout time.Duration) *sharedGates {
	return openGates(s.TB, s.URL(), timeout)
}

func openGates(t testing.TB, url string, timeout time.Duration) *sharedGates {
	g := &sharedGates{TB: t}
	outages := outage.New(slog.New(slog.NewTextHandler(&g.log, nil)), slog.LevelError, "limiting logins")
	for range 3 {
		g.gates = append(g.gates, login.NewShared(open(t, url, timeout), timeout, outages))
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
