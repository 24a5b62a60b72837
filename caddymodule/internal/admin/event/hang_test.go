package event_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// hung is a store that answers nothing until it is released.
type hung struct {
	store.Events
	released chan struct{}
}

func (h hung) AddEvent(context.Context, store.Event) (bool, int, error) {
	<-h.released
	return false, 0, store.ErrUnavailable
}

func (h hung) ClaimEvents(context.Context, time.Time, time.Duration, int) ([]store.Event, error) {
	<-h.released
	return nil, store.ErrUnavailable
}

// Calls do not wait for a store that hangs: the first one waits for some
// milliseconds, and the others of the same second not at all.
func TestHungStoreHoldsNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hung{released: make(chan struct{})}
		defer close(h.released)
		e := emitter(t, from(h), new([]string))
		began := time.Now()
		for range 1000 {
			e.Reached(t.Context(), quota("acc_1", 80))
		}
		if waited := time.Since(began); waited > 20*time.Millisecond {
			t.Errorf("1000 calls waited %s", waited)
		}
	})
}

// A sender stops although the store hangs.
func TestHungStoreHoldsNoStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hung{released: make(chan struct{})}
		s, err := event.NewSender(event.SenderOptions{
			URL: "http://127.0.0.1:1", Key: make([]byte, 32), Store: from(h), Count: func(string, int) {}, Now: time.Now, Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		synctest.Wait()
		began := time.Now()
		s.Stop()
		if waited := time.Since(began); waited > 10*time.Second {
			t.Errorf("stopping took %s", waited)
		}
		close(h.released)
	})
}
