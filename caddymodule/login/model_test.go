package login_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/login/logintest"
)

func TestLocalAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckModel(t, func(*rapid.T) logintest.Setup {
		disk := newDisk()
		local := login.NewLocal(disk)
		return logintest.Setup{
			Next: func() logintest.Limiter { return local },
			Restart: func(now time.Time) error {
				local = login.NewLocal(disk)
				return local.Restore(context.Background(), now)
			},
			Tolerance: login.Tolerance,
		}
	})
}

// Attempts go to one of three gates.
func TestSharedAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckModel(t, func(t *rapid.T) logintest.Setup {
		cells := new(logintest.Cells)
		gates := []*login.Shared{newShared(cells), newShared(cells), newShared(cells)}
		return logintest.Setup{
			Next:     func() logintest.Limiter { return rapid.SampledFrom(gates).Draw(t, "gate") },
			SetClock: cells.SetClock,
		}
	})
}

// However often the clock is set back, no real minute has more than five
// attempts, and a client that waits a minute and the tolerance is admitted.
func TestClockSetBackNeitherOpensNorLocks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(nil, login.Limits{})
		client, account := login.ClientOf("192.0.2.1"), login.Account{}
		checkClockSetBack(t, func(t *rapid.T, now time.Time) bool {
			attempt, _, err := b.local.Reserve(context.Background(), now, b.limits, client, account)
			if err != nil {
				t.Fatalf("Reserve: %v", err)
			}
			return attempt != nil
		})
	})
}

// checkClockSetBack makes attempts of one client with a clock that is set
// back. reserve tells whether an attempt was admitted.
func checkClockSetBack(t *rapid.T, reserve func(t *rapid.T, now time.Time) bool) {
	var elapsed, skew, idle time.Duration
	var admitted []time.Duration
	try := func(t *rapid.T) bool {
		if !reserve(t, start.Add(elapsed+skew)) {
			return false
		}
		admitted = append(admitted, elapsed)
		if n := len(admitted); n > 5 && elapsed-admitted[n-6] < time.Minute {
			t.Fatalf("six attempts in %v", elapsed-admitted[n-6])
		}
		return true
	}
	t.Repeat(map[string]func(*rapid.T){
		"try": func(t *rapid.T) { try(t) },
		"pass": func(t *rapid.T) {
			elapsed += time.Duration(rapid.IntRange(0, int(30*time.Second)).Draw(t, "ns"))
		},
		"set back": func(t *rapid.T) {
			skew -= time.Duration(rapid.IntRange(0, 1e6).Draw(t, "seconds")) * time.Second
		},
		"wait": func(t *rapid.T) {
			try(t)
			idle = time.Minute + login.Tolerance
			elapsed += idle
			if !try(t) {
				t.Fatalf("still refused after %v", idle)
			}
		},
	})
}
