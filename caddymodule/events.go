package caddymodule

import (
	"context"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/feature/check"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/feature/feed"
	"github.com/caddy-tollgate/tollgate/internal/feature/refused"
	"github.com/caddy-tollgate/tollgate/internal/metrics"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/site"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// provisionEvents prepares the events of this configuration. They reach Caddy's
// event system once all apps are started: until then, handlers may still
// subscribe. The configuration serves then, so it is compared with the accounts
// too.
func (a *App) provisionEvents(ctx caddy.Context) error {
	module, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("finding the app events: %w", err)
	}
	bus := module.(*caddyevents.App)
	a.notices = event.NewNotices(func(kind string, data map[string]any) { bus.Emit(ctx, kind, data) }, metrics.EventsDropped.Inc, a.log.Named("event"))
	return bus.On("started", onStart(func() {
		a.notices.Run(ctx)
		a.keepDeclared(ctx)
		for _, finding := range site.CheckRunning(ctx, a.policy) {
			a.log.Warn("the configuration probably has a mistake", zap.String("finding", finding))
		}
		go check.Compare(ctx, a.policy, a.book.Load(), a.now(), a.log)
	}))
}

// attach returns what makes the events of an open store, feeds its usage, and counts
// refused calls. All outlive configurations, and use the one in force.
func attach(of *book.Book) (kept pool.Attached) {
	kept.Refused = refused.NewRefused(refused.Options{
		Engine: of.Engine, Dropped: func(calls int64) { metrics.RefusedDropped.Add(float64(calls)) },
		Logger: outage.Logger(pool.ProcessLog("tollgate.report")),
	})
	kept.Events = event.NewEmitter(event.EmitterOptions{
		Queue: event.NewQueue(of), Count: metrics.CountDelivery, Logger: pool.ProcessLog("tollgate.event"),
		Webhook: func() *event.Webhook {
			if app := current(); app != nil {
				return app.Webhook
			}
			return nil
		},
		Emit: func(kind string, data map[string]any) {
			if app := current(); app != nil {
				app.notices.Add(kind, data)
			}
		},
	})
	kept.Feed = feed.Start(feed.Options{
		Book: of, Count: metrics.CountFed, Logger: pool.ProcessLog("tollgate.feed"),
		InForce: func() (*feed.Feed, *policy.Policy) {
			if app := current(); app != nil {
				if open := app.store.Load(); open != nil && open.Book == of { // not after a reload with another store
					return app.Feed, app.policy
				}
			}
			return nil, nil
		},
	})
	return kept
}

// onStart is a handler of Caddy's event "started".
type onStart func()

// Handle calls the function.
func (run onStart) Handle(context.Context, caddy.Event) error {
	run()
	return nil
}

// Interface guard.
var _ caddyevents.Handler = onStart(nil)
