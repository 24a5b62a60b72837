package login_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

func TestLimitsOfTheAttemptApply(t *testing.T) {
	t.Parallel()
	b := newBench(t, login.Limits{PerClient: 2, Free: 3, FirstWait: time.Second, MaxWait: 3 * time.Second})
	b.fail("192.0.2.1", "a", 2)
	b.refuse("192.0.2.1", "a", time.Minute)
	b.limits.PerClient = 100
	b.fail("192.0.2.1", "a", 1)
	for _, wait := range []time.Duration{1, 2, 3, 3} {
		b.refuse("192.0.2.1", "a", wait*time.Second)
		b.pass(wait * time.Second)
		b.fail("192.0.2.1", "a", 1)
	}
}

func TestReserveInvalidCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, loose)
	client, account := login.ClientOf("192.0.2.1"), login.AccountOf("a")
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := b.limiters[0].Reserve(done, loose, client, account); !errors.Is(err, context.Canceled) {
		t.Errorf("done context: got %v, want %v", err, context.Canceled)
	}
	bad := login.Limits{PerClient: -1}
	if _, _, err := b.limiters[0].Reserve(t.Context(), bad, client, account); !errors.Is(err, login.ErrLimits) {
		t.Errorf("bad limits: got %v, want %v", err, login.ErrLimits)
	}
	if clients, failures, _ := b.memory.Len(); clients != 0 || failures != 0 {
		t.Errorf("got %d and %d rows, want none", clients, failures)
	}
}
