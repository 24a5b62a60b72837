package login_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
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
		if got := g.Wait(now.Add(c.after), c.client, [32]byte{}); got != c.want {
			t.Errorf("%s: got a wait of %v, want %v", c.name, got, c.want)
		}
	}
	if got := g.Add(now.Add(time.Minute), client); got != 0 {
		t.Errorf("the guess after a minute waits %v", got)
	}
}

// TestAcceptedTokensDoNotWait: a client that has sent too many unknown tokens
// goes on with the tokens that were accepted from it in the last 7 days, and
// with no other.
func TestAcceptedTokensDoNotWait(t *testing.T) {
	t.Parallel()
	g := login.NewGuesses()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	client, other := login.ClientOf("203.0.113.7"), login.ClientOf("203.0.113.8")
	own, another := [32]byte{1}, [32]byte{2}
	if wait := g.Accept(now, client, own); wait != 0 {
		t.Fatalf("got a wait of %v", wait)
	}
	block := func(at time.Time) {
		t.Helper()
		for _, c := range []login.Client{client, other} {
			for g.Add(at, c) == 0 {
			}
		}
	}
	check := func(at time.Time, name string, of login.Client, token [32]byte, want bool) {
		t.Helper()
		block(at)
		if got := g.Wait(at, of, token) == 0; got != want {
			t.Errorf("%s: goes on %t, want %t", name, got, want)
		}
	}
	check(now, "the token that was accepted", client, own, true)
	check(now, "another token", client, another, false)
	check(now, "the token, from another client", other, own, false)
	if wait := g.Accept(now, client, another); wait != time.Minute {
		t.Errorf("a valid token that came with unknown ones: got a wait of %v, want a minute", wait)
	}
	check(now, "a token that had to wait", client, another, false)

	const week = 7 * 24 * time.Hour
	check(now.Add(week-1), "within a week", client, own, true)
	if wait := g.Accept(now.Add(week-1), client, own); wait != 0 {
		t.Errorf("got a wait of %v", wait)
	}
	check(now.Add(2*week-2), "within a week of the last use", client, own, true)
	check(now.Add(2*week-1), "a week after the last use", client, own, false)
}
