package event_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// hung is a store that answers nothing until it is released.
type hung struct {
	event.Store
	released chan struct{}
}

func (h hung) AddEvent(context.Context, store.Event) (bool, int, error) {
	<-h.released
	return false, 0, store.ErrUnavailable
}

func (h hung) FollowLog(context.Context, time.Time, func(store.Entry) *store.Event) ([]store.Event, int, bool, error) {
	<-h.released
	return nil, 0, false, store.ErrUnavailable
}

func (h hung) ClaimEvents(context.Context, time.Time, time.Duration, int) ([]store.Event, error) {
	<-h.released
	return nil, store.ErrUnavailable
}

// Calls do not wait for a store that hangs, and a change waits for a second.
func TestHungStoreHoldsNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hung{released: make(chan struct{})}
		e := emitter(t, h, new(emitted))
		began := time.Now()
		for range 1000 {
			e.Reached(quota("acc_1", 80))
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("1000 calls waited %s", waited)
		}
		e.Follow()
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("a change waited %s", waited)
		}
		e.Close()
		if waited := time.Since(began); waited > 6*time.Second {
			t.Errorf("closing waited %s", waited)
		}
		close(h.released)
		synctest.Wait()
	})
}

// A sender stops although the store hangs.
func TestHungStoreHoldsNoStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hung{released: make(chan struct{})}
		s, err := event.NewSender(event.SenderOptions{
			URL: "http://127.0.0.1:1", Key: make([]byte, 32), Count: func(string, int) {}, Now: time.Now, Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start(h)
		synctest.Wait()
		began := time.Now()
		s.Stop()
		if waited := time.Since(began); waited > 10*time.Second {
			t.Errorf("stopping took %s", waited)
		}
		close(h.released)
	})
}
