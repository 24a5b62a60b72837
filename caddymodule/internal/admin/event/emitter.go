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
	// remembered is how many events of quotas an Emitter remembers, about 250
	// bytes for each. It asks the store about others.
	remembered = 1 << 17

	// patience is how long a call waits for its event to be stored. Usually
	// that takes less than a millisecond, once for each event.
	patience = 20 * time.Millisecond

	// storing is how long a change waits for the store.
	storing = time.Second

	// storingAtMost is how long the store may take. The request continues
	// before that, and the Backlog waits for the same result.
	storingAtMost = 10 * time.Second
)

// EmitterOptions are what an Emitter uses.
type EmitterOptions struct {
	// Store returns the store, or why there is none.
	Store func() (store.Events, error)
	// Backlog returns that of the store, for the events that it did not take.
	Backlog func() *Backlog
	// Queued tells whether events of a type are delivered.
	Queued func(kind string) bool
	// Emit publishes a new event. It does not block.
	Emit func(kind string, data map[string]any)
	// Dropped counts events for delivery that were dropped: by the store for
	// newer ones, or because it did not take them.
	Dropped func(n int)
	Logger  *zap.Logger
}

// Emitter stores events, and publishes those that are new. It is safe for
// concurrent use.
type Emitter struct {
	EmitterOptions

	known   *lru.Cache[quotaKey, struct{}] // those that are stored, or in the Backlog
	storing singleflight.Group             // by the id of the event
	outage  *outage.Log
	drops   *outage.Log
}

// NewEmitter returns an Emitter.
func NewEmitter(options EmitterOptions) (*Emitter, error) {
	known, err := lru.New[quotaKey, struct{}](remembered)
	if err != nil {
		return nil, fmt.Errorf("making the memory of events: %w", err)
	}
	log := outage.Logger(options.Logger)
	return &Emitter{
		EmitterOptions: options, known: known, outage: outage.New(log, slog.LevelWarn, "storing an event"),
		drops: outage.New(log, slog.LevelError, "dropping an event that the store did not take"),
	}, nil
}

// Reached stores the event of a quota, unless it is stored already. It waits
// at most 20 milliseconds. After that or a failure, the Backlog has the event.
func (e *Emitter) Reached(ctx context.Context, q Quota) {
	k := q.key()
	if _, found := e.known.Get(k); found {
		return
	}
	e.known.Add(k, struct{}{})
	e.publish(ctx, q.message(), patience)
}

// Publish stores the event of a change. It waits at most a second. After that
// or a failure, the Backlog has the event.
func (e *Emitter) Publish(ctx context.Context, c Change) { e.publish(ctx, c.message(), storing) }

func (e *Emitter) publish(ctx context.Context, m message, patience time.Duration) {
	if !e.store(ctx, m, patience) {
		e.Backlog().add(late{m, e})
	}
}

// lost counts an event that will never be in the store.
func (e *Emitter) lost(m message) {
	e.drops.Failed(slog.String("event", m.id), slog.String("type", m.kind))
	if e.Queued(m.kind) {
		e.Dropped(1)
	}
}

// store stores an event and tells whether the store has it. Calls for the
// same event store it once. It also ends while the store hangs.
func (e *Emitter) store(ctx context.Context, m message, patience time.Duration) bool {
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
	case <-time.After(patience):
		err = fmt.Errorf("the store did not answer within %v", patience)
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
