package caddymodule

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/caddy-tollgate/tollgate/caddymodule/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// maxNotices is how many events wait for Caddy's event handlers at most.
const maxNotices = 1024

// events publishes quotas and changes: to the handlers of Caddy's event
// system, and to the webhook.
type events struct {
	emitter *event.Emitter
	sender  *event.Sender // nil without a webhook
	notices chan notice
}

// notice is an event for Caddy's event system.
type notice struct {
	kind string
	data map[string]any
}

// provisionEvents prepares the events of this configuration.
func (a *App) provisionEvents(ctx caddy.Context) (err error) {
	if err := a.notify(ctx); err != nil {
		return err
	}
	stored := func() (store.Events, error) { return a.Store() }
	if w := a.Webhook; w != nil {
		a.events.sender, err = event.NewSender(event.SenderOptions{
			URL: w.URL, Key: w.key, Store: stored, Count: countDelivery, Now: a.now, Logger: a.log.Named("webhook"),
		})
		if err != nil {
			return err
		}
	}
	full := outage.New(outage.Logger(a.log), slog.LevelWarn, "passing an event to the handlers of the app events, which are too slow")
	a.events.emitter, err = event.NewEmitter(event.EmitterOptions{
		Store: stored, Queued: a.Webhook.wants, Dropped: func(n int) { countDelivery(event.Dropped, n) }, Logger: a.log.Named("event"),
		Emit: func(kind string, data map[string]any) {
			if a.Webhook.wants(kind) {
				a.events.sender.Wake()
			}
			select {
			case a.events.notices <- notice{kind, data}:
				full.Worked()
			default:
				full.Failed(slog.String("type", kind))
			}
		},
	})
	return err
}

// notify starts to pass events to Caddy's event system once all apps are
// started: until then, handlers may still subscribe. Handlers run one after
// the other, and no request waits for them.
func (a *App) notify(ctx caddy.Context) error {
	module, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("finding the app events: %w", err)
	}
	bus := module.(*caddyevents.App)
	a.events.notices = make(chan notice, maxNotices)
	run := func() {
		for {
			select {
			case <-ctx.Done():
				return
			case n := <-a.events.notices:
				bus.Emit(ctx, n.kind, n.data)
			}
		}
	}
	return bus.On("started", onStart(run))
}

// onStart is a handler of Caddy's event "started".
type onStart func()

// Handle starts the function.
func (run onStart) Handle(context.Context, caddy.Event) error {
	go run()
	return nil
}

func (e *events) start() {
	if e.sender != nil {
		e.sender.Start()
	}
}

func (e *events) stop() {
	if e.sender != nil {
		e.sender.Stop()
	}
}

// Publish publishes the event of a change. It returns when the event is stored.
func (a *App) Publish(ctx context.Context, change event.Change) {
	a.events.emitter.Publish(ctx, change)
}

// reached publishes the event of a quota. See gate.Reporter.
func (a *App) reached(ctx context.Context, quota event.Quota) {
	a.events.emitter.Reached(ctx, quota)
}

// Interface guard.
var _ caddyevents.Handler = onStart(nil)
