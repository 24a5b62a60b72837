package caddyupstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

// Upstream serves sign-up, login, API keys and usage as web pages, and a currency
// API, which you can turn off. It answers every request and calls no next handler.
// API calls and logins must have passed the handler tollgate; all others get 403.
//
// The database and the rates stay open across reloads. Handlers with the same
// data and database share them.
//
// All options can have placeholders such as {env.NAME} and {file./path},
// which are resolved when the configuration is loaded. An
// empty option has its default. A placeholder inside a longer value must not
// be empty, and neither must a file.
type Upstream struct {
	app.Settings

	config  app.Config
	logger  *slog.Logger
	handler atomic.Pointer[http.Handler] // nil until the App is open
	pooled  *appKey                      // of the pooled App that this handler uses, or nil

	insecure sync.Once // the warning that session cookies are sent without TLS too
}

// CaddyModule returns the Caddy module information.
func (*Upstream) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.tollgate_upstream", New: func() caddy.Module { return new(Upstream) }}
}

// Provision checks the options. It opens no database, so that caddy validate
// works while another process uses it: the database is opened when the gate
// starts. If it is open already, the handler uses it from here on, so that a
// reload refuses no request.
func (u *Upstream) Provision(ctx caddy.Context) error {
	gate, err := caddymodule.Configured(ctx)
	if err != nil {
		return err
	}
	if err := u.resolve(gate.Timezone); err != nil {
		return err
	}
	u.logger = outage.Logger(caddymodule.ProcessLog("tollgate.upstream"))
	gate.AtStart(u.open)
	return u.join(func() (caddy.Destructor, error) { return nil, errNotOpen })
}

// resolve replaces the placeholders and checks the settings.
func (u *Upstream) resolve(timezone string) error {
	settings := u.Settings
	settings.Timezone = timezone
	var errs []error
	for _, o := range settings.All() {
		value, err := replace(*o.Value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.Name, err))
		}
		*o.Value = value
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	var err error
	u.config, err = settings.Parse()
	return err
}

// replace replaces the placeholders of an option. An option of empty
// variables is empty, so that it has its default. An empty part of an option
// is an error, for example a missing password. An empty file is one too.
func replace(option string) (string, error) {
	value, err := caddy.NewReplacer().ReplaceOrErr(option, false, true)
	if err == nil && value == "" && !strings.Contains(option, "{file.") {
		return "", nil
	}
	return caddymodule.Resolve(option)
}

// check accepts a request that the gate has passed for a purpose.
func check(r *http.Request, purpose string) error {
	if !caddymodule.Passed(r, purpose) {
		return server.ErrNotPassed
	}
	return nil
}

// ServeHTTP answers a request. A request before the database is open gets
// 502 from the gate, as from an upstream that has not started.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	handler := u.handler.Load()
	if handler == nil {
		return caddyhttp.Error(http.StatusBadGateway, errNotOpen)
	}
	if r.TLS != nil && u.config.Address.Scheme != "https" {
		u.insecure.Do(func() {
			u.logger.Warn("session cookies are sent without TLS too: set the option address to the https address of the site")
		})
	}
	(*handler).ServeHTTP(w, r)
	return nil
}

// Cleanup releases the App. It is closed when no configuration uses it.
func (u *Upstream) Cleanup() error { return u.leave() }

// Interface guards.
var (
	_ caddy.Provisioner           = (*Upstream)(nil)
	_ caddy.CleanerUpper          = (*Upstream)(nil)
	_ caddyhttp.MiddlewareHandler = (*Upstream)(nil)
)
