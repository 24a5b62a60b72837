package login_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

// Threat: a hundred guesses are sent at once, to all gates, before the first is
// verified. Expected: exactly the free allowance gets through.
func TestParallelGuesses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		limits login.Limits
		client func(int) string
		want   int64
	}{
		{"at an account", login.Limits{}, func(i int) string { return fmt.Sprint("192.0.2.", i) }, 10},
		{"from a client", login.Limits{}, func(int) string { return "192.0.2.1" }, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachLimiter(t, test.limits, func(t *testing.T, l *bench) {
				var through atomic.Int64
				var group sync.WaitGroup
				for i := range 100 {
					group.Go(func() {
						if attempt, _ := l.try(test.client(i), "victim@example.com"); attempt != nil {
							through.Add(1)
							attempt.Failed()
						}
					})
				}
				group.Wait()
				if got := through.Load(); got != test.want {
					t.Errorf("got %d guesses through, want %d", got, test.want)
				}
			})
		})
	}
}

// A client is known for thirty days, and at most 16 clients of an account are.
// Failures of unknown clients do not delay it.
func TestKnownClient(t *testing.T) {
	t.Parallel()
	eachLimiter(t, loose, func(_ *testing.T, l *bench) {
		l.succeed("192.0.2.1", "a")
		l.pass(30*24*time.Hour - 1)
		l.fail("192.0.2.9", "a", 10)
		l.refuse("192.0.2.9", "a", 30*time.Second)
		l.fail("192.0.2.1", "a", 1)
		l.pass(1)
		l.refuse("192.0.2.1", "a", 30*time.Second-1)
		l.pass(30 * time.Second)
		for i := range 17 {
			l.succeed(fmt.Sprint("198.51.100.", i), fmt.Sprint("b", i/16))
		}
		for i := range 16 {
			l.succeed(fmt.Sprint("203.0.113.", i), "b0")
		}
		l.fail("192.0.2.9", "b0", 10)
		l.refuse("198.51.100.15", "b0", 30*time.Second)
		l.fail("203.0.113.0", "b0", 1)
	})
}

// Without an account, only the client counts.
func TestWithoutAccount(t *testing.T) {
	t.Parallel()
	eachLimiter(t, login.Limits{}, func(_ *testing.T, l *bench) {
		for i := range 15 {
			l.fail(fmt.Sprint("192.0.2.", i), " ", 5)
		}
		l.succeed("192.0.2.16", "")
		l.fail("192.0.2.16", "", 5)
		l.refuse("192.0.2.16", "", time.Minute)
	})
}

// The first outcome of an attempt decides.
func TestFirstOutcomeDecides(t *testing.T) {
	t.Parallel()
	eachLimiter(t, loose, func(t *testing.T, l *bench) {
		l.fail("192.0.2.1", "a", 9)
		attempt := l.admit("192.0.2.1", "a")
		attempt.Failed()
		if err := errors.Join(attempt.Succeeded(t.Context()), attempt.Abandoned(t.Context())); err != nil {
			t.Fatalf("second outcome: %v", err)
		}
		l.refuse("192.0.2.1", "a", 30*time.Second)
		// A second Abandoned deletes no failure of another attempt.
		l.fail("192.0.2.1", "b", 9)
		attempt = l.admit("192.0.2.1", "b")
		for range 3 {
			if err := attempt.Abandoned(t.Context()); err != nil {
				t.Fatalf("Abandoned: %v", err)
			}
		}
		l.fail("192.0.2.1", "b", 1)
		l.refuse("192.0.2.1", "b", 30*time.Second)
	})
}
