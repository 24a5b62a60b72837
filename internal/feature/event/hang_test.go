package event_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// hung is an engine that answers nothing about rows until it is released.
type hung struct {
	book.Engine
	released chan struct{}
}

func (h hung) GetRows(context.Context, book.Space, ...string) ([]book.Row, error) {
	<-h.released
	return nil, store.ErrUnavailable
}

func (h hung) Scan(context.Context, int, ...book.Range) ([][]book.Row, error) {
	<-h.released
	return nil, store.ErrUnavailable
}

// Calls do not wait for a store that hangs, and a change waits for a second.
func TestHungStoreHoldsNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hung{memstore.New(), make(chan struct{})}
		e := emitter(t, over(t, h), new(emitted))
		began := time.Now()
		for range 1000 {
			e.Reached(store.Quota(quota("acc_1", 80)))
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
		h := hung{memstore.New(), make(chan struct{})}
		stop, _ := sender(t, over(t, h), webhook(t, "http://127.0.0.1:1"), zap.NewNop())
		synctest.Wait()
		began := time.Now()
		stop()
		if waited := time.Since(began); waited > 10*time.Second {
			t.Errorf("stopping took %s", waited)
		}
		close(h.released)
	})
}
