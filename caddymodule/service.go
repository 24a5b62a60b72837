package caddymodule

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/site"
)

// This file is for a service that is a Caddy handler behind the gate, in the
// same process.

// Configured returns the app of a configuration, for Provision of a handler.
// It creates none: an empty app has no plans and no secret. A server that has the
// handler logs other gates on its ports.
func Configured(ctx caddy.Context) (*App, error) {
	app, err := ctx.AppIfConfigured("tollgate")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, errors.New("the global option tollgate is missing: write { tollgate { ... } } in front of all sites, with the store, the secret, endpoints and plans")
	}
	if err != nil {
		return nil, fmt.Errorf("loading the app tollgate: %w", err)
	}
	a := app.(*App)
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		a.AtStart(func() error {
			for _, listen := range server.Listen {
				site.ClaimAddress(ctx, listen, ProcessLog("tollgate"))
			}
			return nil
		})
	}
	return a, nil
}

// Resolve replaces the placeholders of an option. An error names the one without a
// value, and no other part of the option, which can be a secret.
func Resolve(option string) (string, error) { return block.Resolve(option, "", nil) }

// ProcessLog returns a logger for what outlives a configuration: it logs to the
// default log of the configuration in force.
func ProcessLog(name string) *zap.Logger { return pool.ProcessLog(name) }

// AtStart adds a function that Start calls once the store is open. If the
// function fails, Caddy keeps the running configuration. Call AtStart in
// Provision only. Requests can arrive before Start.
func (a *App) AtStart(start func() error) { a.starts = append(a.starts, start) }

// Passed tells whether the gate has passed a request for a purpose:
// assertion.Call or assertion.Login. Clients cannot forge this.
func Passed(r *http.Request, purpose string) bool {
	m := markOf(r)
	if m == nil {
		return false
	}
	call := m.Call()
	return call != nil && (purpose == assertion.Login && call.IsLogin() || purpose == assertion.Call && !call.IsLogin())
}

// markVar is the variable of a request that holds its mark. Handlers and the
// configuration can write variables of a request, clients cannot.
const markVar = "tollgate.call"

// markOf returns the mark of a request, or nil if it has not met the gate.
func markOf(r *http.Request) *gate.Mark {
	m, _ := caddyhttp.GetVar(r.Context(), markVar).(*gate.Mark)
	return m
}

// ControlClient returns a client of the control API of the gate in force in
// this process. It stays valid across reloads.
func ControlClient() *client.Client {
	return client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A write to memory does not fail.
		_ = serveCurrent(w, r)
	}))
}
