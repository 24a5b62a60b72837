package event

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/heaptest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// The threat: accounts reach their limits so often that the events fill the
// memory of the gate, for example while the store hangs.

// largest is an event with the longest texts.
func largest(n int) Quota {
	return Quota{
		Account: fmt.Sprintf("acc_%060d", n), Plan: strings.Repeat("p", 32), Endpoint: strings.Repeat("e", 32), Period: store.Day,
		Limit: 1, Used: 1, Start: time.Unix(int64(n), 0), End: time.Unix(int64(n), 0), At: time.Unix(int64(n), 0),
	}
}

// TestEventsAreBounded: the events that are known, and those that wait for the
// store, take the memory that docs/guarantees.md says.
func TestEventsAreBounded(t *testing.T) {
	dropped := 0
	open := func() *Emitter {
		e := NewEmitter(EmitterOptions{
			Queue: NewQueue(book.New(memstore.New(), slog.New(slog.DiscardHandler))), Webhook: func() *Webhook { return new(Webhook) },
			Count: func(_ string, n int) { dropped += n }, Logger: zap.NewNop(),
		})
		e.stop() // it stores nothing
		e.running.Wait()
		return e
	}
	heaptest.Holds(t, "known events", 64<<20, func() any {
		e := open()
		for n := range remembered + remembered/10 {
			e.known.Add(largest(n).key(), struct{}{})
		}
		return e
	})
	heaptest.Holds(t, "events that wait", 16<<20, func() any {
		e := open()
		for n := range store.MaxQueued + 1000 {
			e.Reached(store.Quota(largest(n)))
		}
		return e
	})
	if dropped != 1000 {
		t.Errorf("%d events were dropped, want 1000", dropped)
	}
}
