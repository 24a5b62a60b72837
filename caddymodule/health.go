package caddymodule

import (
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/health"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// apps are the apps between Provision and Cleanup, the newest last. Caddy's
// active context has an app only while its configuration is in force. The
// admin endpoint also answers before and after that, and finds the app here.
var apps struct {
	sync.Mutex
	list []*App
}

func enlist(a *App) {
	apps.Lock()
	defer apps.Unlock()
	apps.list = append(apps.list, a)
}

func delist(a *App) {
	apps.Lock()
	defer apps.Unlock()
	apps.list = slices.DeleteFunc(apps.list, func(other *App) bool { return other == a })
}

// current returns the app in force, or the newest one that starts or stops,
// or nil.
func current() *App {
	if app, err := Configured(caddy.ActiveContext()); err == nil {
		return app
	}
	apps.Lock()
	defer apps.Unlock()
	if n := len(apps.list); n > 0 {
		return apps.list[n-1]
	}
	return nil
}

// storeInForce is for the metrics of the store.
func storeInForce() (open *pool.Store, webhook bool) {
	app := current()
	if app == nil {
		return nil, false
	}
	return app.store.Load(), app.Webhook != nil
}

// stopping marks the app as stopping, and returns since when it is.
func (a *App) stopping() time.Time {
	a.stopped.CompareAndSwap(nil, new(time.Now()))
	return *a.stopped.Load()
}

// readiness tells whether this app can admit calls. Caddy stops apps in any
// order and may wait for requests before it calls Stop, so readiness also
// checks whether the process exits.
func (a *App) readiness() api.Readiness {
	r := health.Report(store.ErrOpening, a.began)
	if s := a.store.Load(); s != nil {
		r = s.Health.Readiness()
	}
	r.Mode = string(a.policy.Mode) // the monitor outlives a configuration
	fail := func(message string) {
		r.Checks = append(slices.Clone(r.Checks), api.Check{Name: "configuration", Message: message})
	}
	switch inForce, err := Configured(caddy.ActiveContext()); {
	case caddy.Exiting() || a.stopped.Load() != nil:
		fail("Caddy stops, or another configuration replaces this one.")
		return r.As(api.Stopping, a.stopping())
	case err != nil || inForce != a:
		fail("Caddy is still loading the configuration.")
		return r.As(api.Starting, a.began)
	}
	return r
}
