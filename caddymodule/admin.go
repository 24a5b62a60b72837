package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// Admin serves the control API below /tollgate/ on Caddy's admin endpoint,
// for the command caddy tollgate. It requires no secret: a client of the
// admin endpoint can replace the whole configuration anyway.
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

	errNoConfiguration = unavailable("Caddy is starting or stopping: no configuration is in force.")
)

// unavailable refuses a request that can succeed some seconds later.
func unavailable(message string) *apierror.Error {
	return apierror.New(http.StatusServiceUnavailable, "unavailable", message).WithHeader("Retry-After", "5")
}

// serveAdmin is serveCurrent for an admin.
func serveAdmin(w http.ResponseWriter, r *http.Request) error {
	return serveCurrent(w, admin.AsAdmin(r))
}

// serveCurrent answers with the control API of the app in force. It looks it
// up for each request: Caddy keeps the admin routes of a configuration that
// failed to load, so this module may belong to an app that never ran.
func serveCurrent(w http.ResponseWriter, r *http.Request) error {
	if app := current(); app != nil {
		app.control.ServeHTTP(w, r)
		return nil
	}
	apierror.CloseUnread(w, r)
	if caddy.ActiveContext().Context == nil {
		return errNoConfiguration.Write(w)
	}
	return errNoGate.Write(w)
}

// Interface guards.
var _ caddy.AdminRouter = (*Admin)(nil)
