package login_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// TestGuesses: a client has 20 guesses in any minute, also in parallel. A
// refused one does not prolong the wait, and other clients do not wait.
func TestGuesses(t *testing.T) {
	t.Parallel()
	g := login.NewGuesses()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	client, other := login.ClientOf("203.0.113.7"), login.ClientOf("203.0.113.8")
	var admitted atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if g.Add(now, client) == 0 {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 20 {
		t.Errorf("%d guesses of 100 passed, want 20", n)
	}
	for _, c := range []struct {
		name   string
		after  time.Duration
		client login.Client
		want   time.Duration
	}{
		{"the same client at once", 0, client, time.Minute},
		{"another client", 0, other, 0},
		{"after 40 seconds", 40 * time.Second, client, 20 * time.Second},
		{"after a minute", time.Minute, client, 0},
	} {
		if got := g.Wait(now.Add(c.after), c.client); got != c.want {
			t.Errorf("%s: got a wait of %v, want %v", c.name, got, c.want)
		}
	}
	if got := g.Add(now.Add(time.Minute), client); got != 0 {
		t.Errorf("the guess after a minute waits %v", got)
	}
}
