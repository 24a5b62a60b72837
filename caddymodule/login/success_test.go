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

// Sign-ups prove no password: a success stays in the allowance.
func TestStrictSuccessesCount(t *testing.T) {
	t.Parallel()
	eachLimiter(t, login.Limits{Strict: true}, func(_ *testing.T, l limiter) {
		for i := range 5 {
			l.succeed("192.0.2.1", fmt.Sprint("new", i))
		}
		l.refuse("192.0.2.1", "new5", time.Minute)
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

// Attempts in flight fill the allowance. A client that must wait is admitted
// when one of them succeeds, and otherwise when it has waited as told.
func TestSuccessWhileOthersWait(t *testing.T) {
	t.Parallel()
	eachLimiter(t, login.Limits{}, func(t *testing.T, l limiter) {
		var inFlight []login.Attempt
		for i := range 5 {
			inFlight = append(inFlight, l.admit("192.0.2.1", fmt.Sprint("a", i)))
			l.pass(time.Second)
		}
		l.refuse("192.0.2.1", "b", 55*time.Second)
		for _, i := range []int{3, 1} { // they end in another order
			if err := inFlight[i].Succeeded(t.Context(), start.Add(5*time.Second)); err != nil {
				t.Fatalf("Succeeded: %v", err)
			}
		}
		l.fail("192.0.2.1", "b", 2)
		l.refuse("192.0.2.1", "b", 55*time.Second)
		l.pass(55 * time.Second)
		// Too late: the attempt does not count any more.
		if err := inFlight[0].Succeeded(t.Context(), start.Add(time.Minute)); err != nil {
			t.Fatalf("Succeeded: %v", err)
		}
		l.fail("192.0.2.1", "b", 1)
		l.refuse("192.0.2.1", "b", 2*time.Second)
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

func TestSuccessesSurviveRestart(t *testing.T) {
	t.Parallel()
	b, d := newDurableBench(t, login.Limits{})
	for i := range 19 {
		b.succeed("192.0.2.1", fmt.Sprint("person", i))
	}
	b.restart(d)
	b.succeed("192.0.2.1", "person0")
	b.fail("192.0.2.1", "person0", 3)
	b.succeed("192.0.2.1", "person1")
	b.restart(d)
	b.fail("192.0.2.1", "person0", 1)
	b.refuse("192.0.2.1", "person0", time.Minute)
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
