package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestClockIsWrong: a server whose clock is far ahead of the known one, such as
// another one of a cluster, calls a call late. It is sent once more and counted
// once.
func TestClockIsWrong(t *testing.T) {
	t.Parallel()
	s, call := openBuckets(t)
	const most = 1000
	limits, rooms := []store.Limit{{Endpoint: "convert", Period: store.Day, Max: most}}, make([]store.Room, 1)
	for n, ahead := range []time.Duration{-5 * time.Minute, 5 * time.Minute, -24 * time.Hour} {
		s.client.clock.mu.Lock()
		s.client.clock.offset = ahead
		s.client.clock.mu.Unlock()
		admitted, err := s.Take(t.Context(), call, limits, rooms)
		if counted := most - rooms[0].Remaining; !admitted || err != nil || counted != int64(n+1) {
			t.Errorf("the known clock is %v ahead: got %v, %v, and %d calls are counted", ahead, admitted, err, counted)
		}
		if got := s.client.clock.ahead().Abs(); got > time.Minute {
			t.Errorf("the known clock is still %v wrong", got)
		}
	}
	// A call that may not count any more is not sent again.
	call.Until = s.Now().Add(-time.Second)
	if _, err := s.Take(t.Context(), call, limits, rooms); !errors.Is(err, store.ErrChanged) {
		t.Errorf("a call of a grant that has ended: got %v, want %v", err, store.ErrChanged)
	}
}

// TestStepOfTheClock: when the clock of this machine steps, also while a request
// is in flight, the time stays that of the server, and the time since a request
// began is right.
func TestStepOfTheClock(t *testing.T) {
	t.Parallel()
	const ahead, second = time.Minute, time.Second
	began := time.Now()
	for _, step := range []time.Duration{4 * second, -4 * second, time.Hour, -time.Hour} {
		c := clock{began: began}
		at := func(after time.Duration) int64 { return began.Add(ahead + after).UnixMicro() }
		c.read(at(second), began.Add(second), began.Add(second))
		call := c.server(began.Add(second))
		c.read(at(2*second), began.Add(2*second), storetest.Step(began.Add(2*second), step))
		for range 2 { // before and after a reply
			after := c.server(storetest.Step(began.Add(3*second), step))
			if got, want := after.UnixMicro(), at(3*second); got != want {
				t.Errorf("step of %v: the time is %v wrong", step, time.Duration(got-want)*time.Microsecond)
			}
			if got := after.Sub(call); got != 2*second {
				t.Errorf("step of %v: a call of two seconds took %v", step, got)
			}
			stepped := storetest.Step(began.Add(3*second), step)
			c.read(at(3*second), stepped, stepped)
		}
	}
}
