package event

import (
	"context"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	// remembered is how many events of quotas an Emitter remembers, about 250
	// bytes for each. It asks the store about others.
	remembered = 1 << 17

	// every is how often an Emitter looks for changes and events of other gates
	// and for repetitions, and stores again what the store did not take.
	every = time.Second

	// lookEvery is how often an Emitter looks for keys that expire soon.
	lookEvery = 10 * time.Second

	// patience is how long a change waits for its event.
	patience = time.Second

	// storing is how long the store may take.
	storing = 10 * time.Second

	// closing bounds Close.
	closing = 5 * time.Second
)

// EmitterOptions are what an Emitter uses.
type EmitterOptions struct {
	Queue *Queue
	// Webhook returns the webhook in force, nil without one.
	Webhook func() *Webhook
	// Emit publishes a new event. It does not block.
	Emit func(kind string, data map[string]any)
	// Count counts outcomes of deliveries.
	Count  func(outcome string, n int)
	Logger *zap.Logger
}

// Emitter stores events, publishes those that are new, and posts those for the
// webhook. It belongs to an open store and outlives configurations. It is safe for
// concurrent use.
type Emitter struct {
	EmitterOptions

	known   *lru.Cache[quotaKey, struct{}] // those that are stored or that wait
	waiting chan *Quota
	sender  *sender
	stop    context.CancelFunc
	running sync.WaitGroup
	outage  *outage.Log
	drops   *outage.Log
}

// NewEmitter returns an Emitter. Close it before its store.
func NewEmitter(options EmitterOptions) *Emitter {
	known, _ := lru.New[quotaKey, struct{}](remembered) // it fails only for a size below 1
	log := outage.Logger(options.Logger)
	ctx, stop := context.WithCancel(context.Background())
	e := &Emitter{
		EmitterOptions: options, known: known, waiting: make(chan *Quota, store.MaxQueued), sender: newSender(&options), stop: stop,
		outage: outage.New(log, slog.LevelWarn, "storing an event"),
		drops:  outage.New(log, slog.LevelError, "dropping an event that the store did not take"),
	}
	e.running.Go(func() { e.run(ctx) })
	e.running.Go(func() { e.sender.run(ctx) })
	return e
}

// run stores what waits, and follows the log, until ctx ends. Then it stores what
// still waits.
func (e *Emitter) run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case q := <-e.waiting:
			for !e.add(q.event()) {
				if ctx.Err() != nil {
					e.lost(q)
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(every):
				}
			}
		case <-tick.C:
			e.followLog()
		case <-look.C:
			e.warnOfKeys()
		}
	}
	for q := e.next(); q != nil; q = e.next() {
		if !e.add(q.event()) {
			e.lost(q)
			return
		}
	}
	e.followLog()
}

// Reached stores the event of a quota in the background, unless it is known to
// be stored. The caller does not wait. If too many wait, the oldest is dropped.
func (e *Emitter) Reached(reached store.Quota) {
	q := Quota(reached)
	k := q.key()
	if _, found := e.known.Get(k); found {
		return
	}
	e.known.Add(k, struct{}{})
	for {
		select {
		case e.waiting <- &q:
			return
		default: // too many wait
		}
		if oldest := e.next(); oldest != nil {
			e.lost(oldest)
		}
	}
}

// lost counts an event that will never be in the store.
func (e *Emitter) lost(q *Quota) {
	m := q.event()
	e.drops.Failed(slog.String("event", m.ID), slog.String("type", m.Type))
	if e.Webhook().Wants(m.Type) {
		e.Count(Dropped, 1)
	}
}

// add adds an event to the store, and tells whether the store has it.
func (e *Emitter) add(m *store.Event) bool {
	ctx, cancel := context.WithTimeout(context.Background(), storing)
	defer cancel()
	m.Queued = e.Webhook().Wants(m.Type)
	isNew, err := e.Queue.Add(ctx, *m)
	if err != nil {
		e.outage.Failed(slog.String("event", m.ID), slog.String("type", m.Type), slog.Any("error", err))
		return false
	}
	e.outage.Worked()
	if isNew {
		e.publish(m)
	}
	return true
}

// Follow makes the events of the changes in the audit log that have none yet.
// It returns when they are stored, or after a second.
func (e *Emitter) Follow() {
	within(patience, e.followLog)
}

// within calls do in the background, and tells whether it returned in time.
func within(limit time.Duration, do func()) bool {
	returned := make(chan struct{})
	go func() {
		do()
		close(returned)
	}()
	select {
	case <-returned:
		return true
	case <-time.After(limit):
		return false
	}
}

// followLog is Follow without a limit.
func (e *Emitter) followLog() {
	e.publishAll(func(ctx context.Context) ([]store.Event, bool, error) {
		return e.Queue.Follow(ctx, e.Queue.now().Add(-deliverFor), func(entry store.Entry) (list []store.Event) {
			events, err := ofEntry(entry)
			if err != nil {
				e.Logger.Error("making no event of a change", zap.Error(err))
			}
			for _, m := range events {
				m.Queued = e.Webhook().Wants(m.Type)
				list = append(list, *m)
			}
			return list
		})
	})
}

// warnOfKeys makes the events of keys that expire soon.
func (e *Emitter) warnOfKeys() {
	e.publishAll(func(ctx context.Context) ([]store.Event, bool, error) {
		return e.Queue.Expiring(ctx, e.Webhook().Wants(KeyExpiring))
	})
}

// publishAll publishes the events that next adds, until there are no more.
func (e *Emitter) publishAll(next func(context.Context) (added []store.Event, more bool, err error)) {
	ctx, cancel := context.WithTimeout(context.Background(), storing)
	defer cancel()
	for more := true; more; {
		added, hasMore, err := next(ctx)
		if err != nil {
			e.outage.Failed(slog.Any("error", err))
			return
		}
		e.outage.Worked()
		for i := range added {
			e.publish(&added[i])
		}
		more = hasMore
	}
}

// publish publishes an event that is new, and makes the sender look for it.
func (e *Emitter) publish(m *store.Event) {
	e.Logger.Info("event", zap.String("id", m.ID), zap.String("type", m.Type), zap.Any("data", m.Data))
	e.Emit(m.Type, m.Data)
	if m.Queued {
		select {
		case e.sender.wake <- struct{}{}:
		default: // it looks already
		}
	}
}

// Close ends posting, and stores the events that wait and those of the changes. It
// does not wait for a store that hangs. Events that are left are dropped, but
// changes are still in the log.
func (e *Emitter) Close() {
	e.stop()
	if !within(closing, e.running.Wait) {
		e.Logger.Warn("stopping to post events although the store hangs")
	}
	for q := e.next(); q != nil; q = e.next() {
		e.lost(q)
	}
}

// next returns a quota that waits, or nil.
func (e *Emitter) next() *Quota {
	select {
	case q := <-e.waiting:
		return q
	default:
		return nil
	}
}
