package event

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const (
	// remembered is how many events of quotas an Emitter remembers. It asks
	// the store about others.
	remembered = 1 << 16

	// storing is how long a request waits for the store.
	storing = time.Second

	// storingAtMost is how long the store may take. The request continues
	// before that, and the next one waits for the same result.
	storingAtMost = 10 * time.Second
)

// EmitterOptions are what an Emitter uses.
type EmitterOptions struct {
	// Store returns the store, or why there is none.
	Store func() (store.Events, error)
	// Queued tells whether events of a type are delivered.
	Queued func(kind string) bool
	// Emit publishes a new event. It does not block.
	Emit func(kind string, data map[string]any)
	// Dropped counts events that the store dropped for newer ones.
	Dropped func(n int)
	Logger  *zap.Logger
}

// Emitter stores events, and tells about those that are new. It is safe for
// concurrent use.
type Emitter struct {
	EmitterOptions
	stored  *lru.Cache[quotaKey, struct{}]
	storing singleflight.Group // by the id of the event
	outage  *outage.Log
}

// NewEmitter returns an Emitter.
func NewEmitter(options EmitterOptions) (*Emitter, error) {
	stored, err := lru.New[quotaKey, struct{}](remembered)
	if err != nil {
		return nil, fmt.Errorf("making the memory of events: %w", err)
	}
	log := outage.New(outage.Logger(options.Logger), slog.LevelError, "storing an event")
	return &Emitter{EmitterOptions: options, stored: stored, outage: log}, nil
}

// Reached stores the event of a quota, unless it is stored already. After a
// failure, the next call for the same event tries again.
func (e *Emitter) Reached(ctx context.Context, q Quota) {
	k := q.key()
	if e.stored.Contains(k) {
		return
	}
	if e.store(ctx, q.message()) {
		e.stored.Add(k, struct{}{})
	}
}

// Publish stores the event of a change.
func (e *Emitter) Publish(ctx context.Context, c Change) { e.store(ctx, c.message()) }

// store stores an event and tells whether the store has it. Calls for the
// same event store it once. It also ends while the store hangs.
func (e *Emitter) store(ctx context.Context, m message) bool {
	done := e.storing.DoChan(m.id, func() (any, error) {
		// The end of one request does not end what others wait for.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storingAtMost)
		defer cancel()
		return nil, e.add(ctx, m)
	})
	var err error
	select {
	case result := <-done:
		err = result.Err
	case <-time.After(storing):
		err = fmt.Errorf("the store did not answer within %v", storing)
	}
	if err != nil {
		e.outage.Failed(slog.String("event", m.id), slog.String("type", m.kind), slog.Any("error", err))
		return false
	}
	e.outage.Worked()
	return true
}

// add adds an event to the store, and publishes it if it is new.
func (e *Emitter) add(ctx context.Context, m message) error {
	body, err := m.body()
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	events, err := e.Store()
	if err != nil {
		return err
	}
	isNew, dropped, err := events.AddEvent(ctx, store.Event{
		ID: m.id, Type: m.kind, At: m.at, Body: body, Queued: e.Queued(m.kind), Known: m.known,
	})
	if err != nil {
		return err
	}
	if dropped > 0 {
		e.Dropped(dropped)
		e.Logger.Warn("too many events wait for delivery; dropped the oldest", zap.Int("dropped", dropped), zap.Int("at_most", store.MaxQueued))
	}
	if isNew {
		e.Logger.Info("event", zap.String("id", m.id), zap.String("type", m.kind), zap.Any("data", m.data))
		e.Emit(m.kind, m.data)
	}
	return nil
}
