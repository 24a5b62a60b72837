package event

import (
	"context"
	"log/slog"
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

	// every is how often an Emitter looks for changes of other gates, and
	// stores again what the store did not take.
	every = time.Second

	// patience is how long a change waits for its event.
	patience = time.Second

	// storing is how long the store may take.
	storing = 10 * time.Second

	// closing bounds Close.
	closing = 5 * time.Second
)

// EmitterOptions are what an Emitter uses.
type EmitterOptions struct {
	Store Store
	// Queued tells whether events of a type are delivered.
	Queued func(kind string) bool
	// Emit publishes a new event. It does not block.
	Emit func(kind string, data map[string]any)
	// Dropped counts events for delivery that were dropped: by the store for
	// newer ones, or because it did not take them.
	Dropped func(n int)
	Now     func() time.Time
	Logger  *zap.Logger
}

// Emitter stores events, and publishes those that are new. It belongs to an
// open store and outlives configurations. It is safe for concurrent use.
type Emitter struct {
	EmitterOptions

	known   *lru.Cache[quotaKey, struct{}] // those that are stored or that wait
	waiting chan *Quota
	stop    context.CancelFunc
	ended   chan struct{}
	outage  *outage.Log
	drops   *outage.Log
}

// NewEmitter returns an Emitter. Close it before its store.
func NewEmitter(options EmitterOptions) *Emitter {
	known, _ := lru.New[quotaKey, struct{}](remembered) // it fails only for a size below 1
	log := outage.Logger(options.Logger)
	ctx, stop := context.WithCancel(context.Background())
	e := &Emitter{
		EmitterOptions: options, known: known, waiting: make(chan *Quota, store.MaxQueued), stop: stop, ended: make(chan struct{}),
		outage: outage.New(log, slog.LevelWarn, "storing an event"),
		drops:  outage.New(log, slog.LevelError, "dropping an event that the store did not take"),
	}
	go e.run(ctx)
	return e
}

// run stores what waits, and follows the log, until ctx ends.
func (e *Emitter) run(ctx context.Context) {
	defer close(e.ended)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-e.waiting:
			e.storeQuota(ctx, q)
		case <-tick.C:
			e.followLog()
		}
	}
}

// Reached stores the event of a quota in the background, unless it is known to
// be stored. The caller does not wait. If too many wait, the oldest is dropped.
func (e *Emitter) Reached(q Quota) {
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
	m := q.message()
	e.drops.Failed(slog.String("event", m.ID), slog.String("type", m.Type))
	if e.Queued(m.Type) {
		e.Dropped(1)
	}
}

// storeQuota stores the event of a quota. It tries again until the store takes
// it, or once more when ctx ends.
func (e *Emitter) storeQuota(ctx context.Context, q *Quota) {
	for ending := false; !e.add(q.message()); {
		if ending {
			e.lost(q)
			return
		}
		select {
		case <-ctx.Done():
			ending = true
		case <-time.After(every):
		}
	}
}

// add adds an event to the store, and tells whether the store has it.
func (e *Emitter) add(m *message) bool {
	ctx, cancel := context.WithTimeout(context.Background(), storing)
	defer cancel()
	m.Queued = e.Queued(m.Type)
	isNew, dropped, err := e.Store.AddEvent(ctx, m.Event)
	if err != nil {
		e.outage.Failed(slog.String("event", m.ID), slog.String("type", m.Type), slog.Any("error", err))
		return false
	}
	e.outage.Worked()
	e.count(dropped)
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
	ctx, cancel := context.WithTimeout(context.Background(), storing)
	defer cancel()
	for more := true; more; {
		made := map[string]*message{}
		added, dropped, hasMore, err := e.Store.FollowLog(ctx, e.Now().Add(-deliverFor), func(entry store.Entry) *store.Event {
			m, err := ofEntry(entry)
			if err != nil {
				e.Logger.Error("making no event of a change", zap.Error(err))
			}
			if m == nil {
				return nil
			}
			m.Queued = e.Queued(m.Type)
			made[m.ID] = m
			return &m.Event
		})
		if err != nil {
			e.outage.Failed(slog.Any("error", err))
			return
		}
		e.outage.Worked()
		e.count(dropped)
		for i := range added {
			e.publish(made[added[i].ID])
		}
		more = hasMore
	}
}

// count counts the events that the store dropped.
func (e *Emitter) count(dropped int) {
	if dropped > 0 {
		e.Dropped(dropped)
		e.Logger.Warn("too many events wait for delivery; dropped the oldest", zap.Int("dropped", dropped), zap.Int("at_most", store.MaxQueued))
	}
}

// publish publishes an event that is new.
func (e *Emitter) publish(m *message) {
	e.Logger.Info("event", zap.String("id", m.ID), zap.String("type", m.Type), zap.Any("data", m.data))
	e.Emit(m.Type, m.data)
}

// Close stores the events that wait, and the events of the changes. It does not
// wait for a store that hangs. Events that are left are dropped, but changes
// are still in the log.
func (e *Emitter) Close() {
	e.stop()
	within(closing, func() {
		<-e.ended
		for q := e.next(); q != nil; q = e.next() {
			if !e.add(q.message()) {
				e.lost(q)
				return
			}
		}
		e.followLog()
	})
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
