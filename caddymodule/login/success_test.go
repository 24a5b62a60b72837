package login_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// limiter is a Local or several Shared, with a clock that the test moves.
type limiter interface {
	try(address, email string) (login.Attempt, time.Duration)
	admit(address, email string) login.Attempt
	fail(address, email string, times int)
	succeed(address, email string)
	refuse(address, email string, want time.Duration)
	pass(d time.Duration)
}

// eachLimiter runs a test of the rule per client for both limiters.
func eachLimiter(t *testing.T, limits login.Limits, test func(t *testing.T, l limiter)) {
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		b, _ := newDurableBench(t, limits)
		test(t, b)
	})
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		test(t, newGates(t, limits))
	})
}

// An office behind one address logs in: 20 successes leave the allowance, the
// next five use it up.
func TestSuccessesHaveALogOfTheirOwn(t *testing.T) {
	t.Parallel()
	eachLimiter(t, login.Limits{}, func(_ *testing.T, l limiter) {
		for i := range 20 {
			l.succeed("192.0.2.1", fmt.Sprint("person", i))
			l.pass(time.Second)
		}
		l.fail("192.0.2.1", "person0", 1)
		for i := range 4 {
			l.succeed("192.0.2.1", fmt.Sprint("person", i))
		}
		l.refuse("192.0.2.1", "person9", time.Minute)
		l.pass(40 * time.Second) // the first of the 20 is a minute ago
		l.refuse("192.0.2.1", "person9", 20*time.Second)
		l.pass(20*time.Second - 1)
		l.refuse("192.0.2.1", "person9", 1)
		l.pass(1)
		for i := range 20 {
			l.succeed("192.0.2.1", fmt.Sprint("person", i))
		}
		l.fail("192.0.2.1", "person0", 5)
		l.refuse("192.0.2.1", "person1", time.Minute)
	})
}

// Threat: an attacker logs in to its own account between guesses, to get more
// of them. Expected: five guesses in a minute, as without.
func TestSuccessesBuyNoGuesses(t *testing.T) {
	t.Parallel()
	eachLimiter(t, login.Limits{}, func(t *testing.T, l limiter) {
		guesses := 0
		for range 50 {
			if attempt, _ := l.try("192.0.2.1", "own"); attempt != nil {
				if err := attempt.Succeeded(t.Context(), start); err != nil {
					t.Fatalf("Succeeded: %v", err)
				}
			}
			if attempt, _ := l.try("192.0.2.1", "victim"); attempt != nil {
				attempt.Failed()
				guesses++
			}
		}
		if guesses > 5 {
			t.Errorf("got %d guesses in a minute, want at most 5", guesses)
		}
	})
}

// Attempts that succeed at the same instant never leave more than both logs.
func TestParallelSuccesses(t *testing.T) {
	t.Parallel()
	eachLimiter(t, login.Limits{}, func(t *testing.T, l limiter) {
		var mu sync.Mutex
		admitted := 0
		var group sync.WaitGroup
		for worker := range 5 {
			group.Go(func() {
				for range 10 {
					attempt, _ := l.try("192.0.2.1", fmt.Sprint("person", worker))
					if attempt == nil {
						continue
					}
					if err := attempt.Succeeded(t.Context(), start); err != nil {
						t.Errorf("Succeeded: %v", err)
					}
					mu.Lock()
					admitted++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if admitted > 25 {
			t.Errorf("got %d attempts in a minute, want at most 25", admitted)
		}
		for admitted < 25 {
			l.succeed("192.0.2.1", "person0")
			admitted++
		}
		l.refuse("192.0.2.1", "person0", time.Minute)
	})
}

// Successes that the server's clock, set back, moves count once.
func TestSharedSuccessesMoveWithTheClock(t *testing.T) {
	t.Parallel()
	g := newGates(t, login.Limits{})
	for range 20 {
		g.succeed("192.0.2.1", "a")
	}
	g.pass(-time.Hour)
	g.fail("192.0.2.1", "b", 4)
	g.succeed("192.0.2.1", "a")
	g.refuse("192.0.2.1", "a", time.Minute)
	g.pass(time.Minute)
	g.succeed("192.0.2.1", "a")
	g.fail("192.0.2.1", "b", 5)
	g.refuse("192.0.2.1", "a", time.Minute)
}
