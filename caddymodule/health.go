package caddymodule

import (
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/health"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// apps are the apps between Provision and Cleanup, the newest last.
// Caddy's active context has an app only from when its configuration is
// in force until it begins to stop. The admin endpoint answers before
// that and after it, so the app is found here.
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

// current returns the app that is in force, or the newest one that is
// about to be or that stops. It returns nil if there is none.
func current() *App {
	if app, err := configured(caddy.ActiveContext()); err == nil {
		return app
	}
	apps.Lock()
	defer apps.Unlock()
	if n := len(apps.list); n > 0 {
		return apps.list[n-1]
	}
	return nil
}

// stopping notes that the app stops, and returns since when.
func (a *App) stopping() time.Time {
	a.stopped.CompareAndSwap(nil, new(time.Now()))
	return *a.stopped.Load()
}

// readiness tells whether this app can admit calls. Caddy stops the apps
// in no particular order and may wait for requests before it calls Stop,
// so the end of the process is asked for as well.
func (a *App) readiness() api.Readiness {
	r := health.Report(store.ErrOpening, a.began)
	if s := a.state.Load(); s != nil {
		r = s.health.Readiness()
	}
	switch inForce, err := configured(caddy.ActiveContext()); {
	case caddy.Exiting() || a.stopped.Load() != nil:
		return r.As(api.Stopping, a.stopping())
	case err != nil || inForce != a:
		return r.As(api.Starting, a.began)
	}
	return r
}
