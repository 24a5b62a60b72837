package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/feature/backup"
)

func init() { caddy.RegisterModule((*Admin)(nil)) }

// Admin manages API keys, accounts, quotas and usage for the command caddy
// tollgate, on Caddy's admin endpoint. It is the control API below /tollgate/
// without a secret: a client of the admin endpoint can replace the whole
// configuration anyway.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (*Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.tollgate", New: func() caddy.Module { return new(Admin) }}
}

// Routes implements caddy.AdminRouter.
func (*Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/tollgate/backup", Handler: caddy.AdminHandlerFunc(serveBackup)},
		{Pattern: "/tollgate/", Handler: caddy.AdminHandlerFunc(serveAdmin)},
	}
}

var (
	errNoGate = apierror.New(http.StatusServiceUnavailable, "unavailable",
		"The running configuration has no working global option tollgate.")

	errNoConfiguration = apierror.Unavailable("Caddy is starting or stopping: no configuration is in force.")

	errNoStoreNow = apierror.Unavailable("The store is not open. Try again.")
)

// noApp refuses a request while no app is in force.
func noApp() *apierror.Error {
	if caddy.ActiveContext().Context == nil {
		return errNoConfiguration
	}
	return errNoGate
}

// serveAdmin is serveCurrent for an admin.
func serveAdmin(w http.ResponseWriter, r *http.Request) error {
	return serveCurrent(w, admin.AsAdmin(r))
}

// serveCurrent answers with the control API of the app in force. It looks it
// up for each request: Caddy keeps the admin routes of a configuration that
// failed to load, so this module may belong to an app that never ran.
func serveCurrent(w http.ResponseWriter, r *http.Request) error {
	app := current()
	if app == nil {
		apierror.CloseUnread(w, r)
		return noApp().Write(w)
	}
	app.control.ServeHTTP(w, r)
	return nil
}

// serveBackup sends a backup of the store in force.
func serveBackup(w http.ResponseWriter, r *http.Request) error {
	return backup.Serve(w, r, func() (backup.Source, *apierror.Error) {
		app := current()
		if app == nil {
			return backup.Source{}, noApp()
		}
		open := app.store.Load()
		if open == nil {
			return backup.Source{}, errNoStoreNow
		}
		return backup.Source{Book: open.Book, Now: app.now, Flush: app.flushReports, Closing: open.Closing, Log: app.log}, nil
	})
}

// Interface guards.
var _ caddy.AdminRouter = (*Admin)(nil)
