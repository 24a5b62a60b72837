package caddymodule

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/portal"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

func init() {
	caddy.RegisterModule((*Control)(nil))
	httpcaddyfile.RegisterHandlerDirective("tollgate_control", parseControl)
	// Among the directives that answer requests, because it answers all.
	httpcaddyfile.RegisterDirectiveOrder("tollgate_control", httpcaddyfile.Before, "respond")
}

// Control manages API keys, accounts, quotas and usage for your applications: the
// control API below /tollgate/. They send the secret of the app tollgate as a
// Bearer token. Only GET and HEAD of /tollgate/health/live, /tollgate/health/ready
// and /tollgate/jwks.json need no secret. POST /tollgate/introspect needs
// introspection_secret instead, and taking and settling of calls take_secret. It
// answers every request and calls no next handler: use it on a listener of its own
// that is not public.
type Control struct {
	handler http.Handler
}

// CaddyModule returns the Caddy module information.
func (*Control) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.tollgate_control", New: func() caddy.Module { return new(Control) }}
}

// Provision finds the app.
func (c *Control) Provision(ctx caddy.Context) error {
	app, err := Configured(ctx)
	if err != nil {
		return err
	}
	c.handler = feature.Listener(admin.RequireSecret(app.control, app.Secret, app.OldSecret), controlBackend{app}, ctx.Slogger())
	return nil
}

// ServeHTTP answers a request to the control API.
func (c *Control) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	c.handler.ServeHTTP(w, r)
	return nil
}

// parseControl parses the directive, which has no arguments:
//
//	tollgate_control
func parseControl(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	return new(Control), refuseOptions(h, "no arguments and no block", "")
}

// controlBackend is an App as a feature.Gate.
type controlBackend struct{ *App }

// Now implements admin.Backend.
func (b controlBackend) Now() time.Time { return b.now() }

// Policy implements admin.Backend.
func (b controlBackend) Policy() *policy.Policy { return b.policy }

// PublicKeys implements admin.Backend.
func (b controlBackend) PublicKeys() assertion.KeySet { return assertion.NewKeySet(b.keys...) }

// Portal implements portal.Linker.
func (b controlBackend) Portal(account string, now time.Time) (api.Portal, error) {
	return portal.Link(b.signer, b.site, account, now)
}

// backupTimer is the unit of the package that makes backups.
const backupTimer = "/usr/lib/systemd/system/tollgate-backup.timer"

// Watched implements report.Watched.
func (b controlBackend) Watched() (webhook, backup bool) {
	_, err := os.Stat(backupTimer)
	return b.Webhook != nil, err == nil
}

// Follow implements admin.Backend.
func (b controlBackend) Follow() {
	if s := b.store.Load(); s != nil {
		s.Events.Follow()
	}
}

// FlushReports implements refused.Flusher.
func (b controlBackend) FlushReports(ctx context.Context) error { return b.flushReports(ctx) }

// Readiness implements admin.Backend. It reports on the gate in force:
// during a reload, the request may reach either app. If the app is replaced
// meanwhile, it reports "stopping", so the loop asks the new one.
func (b controlBackend) Readiness() api.Readiness {
	for {
		app := cmp.Or(current(), b.App)
		r := app.readiness()
		if now := current(); now == nil || now == app {
			return r
		}
	}
}

// TakeSecret implements take.Gate.
func (b controlBackend) TakeSecret() string { return b.App.TakeSecret }

// IntrospectionSecret implements introspect.Gate.
func (b controlBackend) IntrospectionSecret() string { return b.App.IntrospectionSecret }

// Options implements explain.Gate.
func (b controlBackend) Options() gate.Options { return b.gate.Options }

// Interface guards.
var (
	_ caddy.Provisioner           = (*Control)(nil)
	_ caddyhttp.MiddlewareHandler = (*Control)(nil)
	_ feature.Gate                = controlBackend{}
)
