package login_test

import (
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/heaptest"
	"github.com/caddy-tollgate/tollgate/internal/login"
)

// Threat: strangers fill the memory of a small server, until the kernel ends the
// process. Expected: with 512 MiB, the cells of all strangers have a 16th of
// 1000 MiB, and those of known clients a 16th of 3200 MiB. A class that is full
// keeps what it promises: the attempts of a client are exact, the client that
// the account knows is served, and an account that must wait goes on to wait.
func TestFloodOfASmallServer(t *testing.T) {
	before := debug.SetMemoryLimit(512 << 20)
	defer debug.SetMemoryLimit(before)
	const strangers, people = 1000 << 20 / 16, 3200 << 20 / 16
	for _, flood := range []struct {
		name     string
		limits   login.Limits // of the flood
		attempts int          // as many as fill the class
		most     int64
		isFull   func(clients, failing, known int) bool
		outcome  func(*login.Attempt) error
	}{
		{"accounts with free failures", login.Limits{}, 50_000, strangers,
			func(_, failing, _ int) bool { return failing < 45_000 },
			func(a *login.Attempt) error { a.Failed(); return nil }},
		{"accounts that must wait", login.Limits{Free: 1}, 135_000, strangers,
			func(clients, failing, _ int) bool { return clients < 125_000 && failing < 133_000 },
			func(a *login.Attempt) error { a.Failed(); return nil }},
		// Such an account keeps room for all its failures.
		{"accounts of strangers who signed up", login.Limits{Free: 256}, 30_000, strangers + people,
			func(_, _, known int) bool { return known < 29_000 },
			func(a *login.Attempt) error { return a.Succeeded(t.Context()) }},
	} {
		b := newBench(t, login.Limits{})
		heaptest.Holds(t, flood.name, flood.most, func() any {
			b.use(login.NewMemory(b.clock, nil))
			const recent = 15_000 // attempts of the flood after those of others
			for n := range flood.attempts {
				if n == flood.attempts-recent {
					b.succeed("192.0.2.1", "victim@example.com")
					b.fail("192.0.2.2", "victim@example.com", 5)
					b.fail("192.0.2.3", "victim@example.com", 5)
					b.fail("192.0.2.4", "waiting@example.com", 5)
					b.fail("192.0.2.5", "waiting@example.com", 5)
				}
				client, account := login.Client{4, 10, byte(n >> 16), byte(n >> 8), byte(n)}, login.AccountOf(fmt.Sprint(n))
				attempt, _, err := b.limiters[0].Reserve(t.Context(), flood.limits, client, account)
				if err == nil {
					err = flood.outcome(attempt)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return b.memory
		})
		if clients, failing, known := b.memory.Len(); !flood.isFull(clients, failing, known) {
			t.Errorf("%s: got %d clients, %d failing and %d known, want a full class", flood.name, clients, failing, known)
		}
		b.refuse("192.0.2.2", "other@example.com", time.Minute)
		b.refuse("192.0.2.6", "waiting@example.com", 30*time.Second)
		b.refuse("192.0.2.6", "victim@example.com", 30*time.Second)
		b.succeed("192.0.2.1", "victim@example.com")
		for n := range 5 {
			b.fail("192.0.2.7", fmt.Sprint("exact", n), 1)
		}
		b.refuse("192.0.2.7", "exact", time.Minute)
	}
}
