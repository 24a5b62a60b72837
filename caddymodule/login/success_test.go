package login_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// An office behind one address logs in: 20 successes leave the allowance, the
// next five use it up.
func TestSuccessesHaveALogOfTheirOwn(t *testing.T) {
	t.Parallel()
	eachLimiter(t, login.Limits{}, func(_ *testing.T, l *bench) {
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
	eachLimiter(t, login.Limits{}, func(t *testing.T, l *bench) {
		guesses := 0
		for range 50 {
			if attempt, _ := l.try("192.0.2.1", "own"); attempt != nil {
				if err := attempt.Succeeded(t.Context()); err != nil {
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
	eachLimiter(t, login.Limits{}, func(t *testing.T, l *bench) {
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
					if err := attempt.Succeeded(t.Context()); err != nil {
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
