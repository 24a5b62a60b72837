package caddymodule

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/feature/check"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/metrics"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/site"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

const (
	// maxNotices is how many events wait for Caddy's event handlers at most.
	maxNotices = 1024

	// draining is how long a configuration that stops waits for the handlers
	// of its events. They do not run after that.
	draining = 5 * time.Second
)

// events publishes new events to the handlers of Caddy's event system and to
// the webhook of a configuration.
type events struct {
	sender *event.Sender // nil without a webhook
	// emit wakes the sender, and adds to notices. It does not block.
	emit func(kind string, data map[string]any)
	// notices are the calls of Caddy's event handlers that wait.
	notices chan func()
	runs    atomic.Bool // whether notices run
	log     *zap.Logger
}

// provisionEvents prepares the events of this configuration.
func (a *App) provisionEvents(ctx caddy.Context) (err error) {
	bus, err := a.notify(ctx)
	if err != nil {
		return err
	}
	if w := a.Webhook; w != nil {
		a.events.sender, err = event.NewSender(event.SenderOptions{
			URL: w.URL, Key: w.key, Count: metrics.CountDelivery, Now: a.now, Logger: a.log.Named("webhook"),
		})
		if err != nil {
			return err
		}
	}
	full := outage.New(outage.Logger(a.log), slog.LevelWarn, "passing an event to the handlers of the app events, which are too slow")
	a.events.emit = func(kind string, data map[string]any) {
		if a.Webhook.wants(kind) {
			a.events.sender.Wake()
		}
		select {
		case a.events.notices <- func() { bus.Emit(ctx, kind, data) }:
			full.Worked()
		default:
			metrics.EventsDropped.Inc()
			full.Failed(slog.String("type", kind))
		}
	}
	return nil
}

// newEmitter returns the Emitter of an open store. It outlives configurations,
// and passes new events to the one in force.
func newEmitter(b *book.Book, clock store.Clock) *event.Emitter {
	return event.NewEmitter(event.EmitterOptions{
		Store: b, Now: clock.Now, Dropped: func(n int) { metrics.CountDelivery(event.Dropped, n) }, Logger: pool.ProcessLog("tollgate.event"),
		Queued: func(kind string) bool {
			app := current()
			return app != nil && app.Webhook.wants(kind)
		},
		Emit: func(kind string, data map[string]any) {
			if app := current(); app != nil {
				app.events.emit(kind, data)
			}
		},
	})
}

// notify starts to pass events to Caddy's event system once all apps are
// started: until then, handlers may still subscribe. Handlers run one after
// the other, and no request waits for them. The configuration serves then, so
// it is compared with the accounts too.
func (a *App) notify(ctx caddy.Context) (*caddyevents.App, error) {
	module, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("finding the app events: %w", err)
	}
	bus := module.(*caddyevents.App)
	a.events.notices, a.events.log = make(chan func(), maxNotices), a.log.Named("event")
	return bus, bus.On("started", onStart(func() {
		a.events.runs.Store(true)
		go a.events.run(ctx)
		for _, finding := range site.CheckRunning(ctx, a.policy.Guard) {
			a.log.Warn("the configuration probably has a mistake", zap.String("finding", finding))
		}
		go check.Compare(ctx, a.policy, a.book.Load(), a.now(), a.log)
	}))
}

// run runs notices until ctx ends.
func (e *events) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case notice := <-e.notices:
			notice()
		}
	}
}

// onStart is a handler of Caddy's event "started".
type onStart func()

// Handle calls the function.
func (run onStart) Handle(context.Context, caddy.Event) error {
	run()
	return nil
}

func (e *events) stop() {
	if e.sender != nil {
		e.sender.Stop()
	}
	if e.runs.Load() && !e.drain() {
		e.log.Warn("stopping before the handlers of the app events have run: they miss the events that wait", zap.Duration("waited", draining))
	}
}

// drain waits until the notices that wait have run, and tells whether they did
// in time.
func (e *events) drain() bool {
	timeout, drained := time.After(draining), make(chan struct{})
	for notices := e.notices; ; {
		select {
		case notices <- func() { close(drained) }:
			notices = nil // sent
		case <-drained:
			return true
		case <-timeout:
			return false
		}
	}
}

// Interface guard.
var _ caddyevents.Handler = onStart(nil)
