package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// Admin serves the control API below /tollgate/ of Caddy's admin
// endpoint, for the command caddy tollgate. It needs no secret of its
// own: whoever reaches that endpoint can replace the whole configuration.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (*Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.tollgate", New: func() caddy.Module { return new(Admin) }}
}

// Routes returns what the admin endpoint is to route here.
func (a *Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/tollgate/", Handler: caddy.AdminHandlerFunc(a.serve)}}
}

var (
	errNoGate = apierror.New(http.StatusServiceUnavailable, "unavailable",
		"The running configuration has no working global option tollgate.")

	errNoConfiguration = apierror.New(http.StatusServiceUnavailable, "unavailable",
		"Caddy is starting or stopping: no configuration is in force.").WithHeader("Retry-After", "5")
)

// serve asks for the running app at each request. The one that was
// running when this module was made may be gone: after a reload that
// failed, Caddy keeps the admin routes of the configuration that failed.
func (*Admin) serve(w http.ResponseWriter, r *http.Request) error {
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
