package caddymodule

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tollgate/tollgate/caddymodule/gate"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// Gate is the handler that stands in front of an API. It checks the path,
// the token, the plan and the day's quota of each request, and hands on
// those that pass; everything it needs to know is in the app tollgate.
// Where it stands in front of a request twice, the second leaves alone
// what the first has let through.
//
// It sets the placeholder {http.auth.user.id} to the account, so that
// access logs name it, and {http.tollgate.endpoint}, {http.tollgate.plan},
// {http.tollgate.key}, {http.tollgate.limit} and
// {http.tollgate.remaining}.
type Gate struct {
	app *App
}

// CaddyModule returns the Caddy module information.
func (*Gate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.tollgate", New: func() caddy.Module { return new(Gate) }}
}

// Provision finds the app.
func (g *Gate) Provision(ctx caddy.Context) (err error) {
	g.app, err = configured(ctx)
	return err
}

// configured returns the app, which has to be in the configuration: one
// that is made up on the spot would have no plans and no secret.
func configured(ctx caddy.Context) (*App, error) {
	app, err := ctx.AppIfConfigured("tollgate")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, errors.New("the global option tollgate is missing: it holds the plans, the store and the secret")
	}
	if err != nil {
		return nil, fmt.Errorf("loading the app tollgate: %w", err)
	}
	return app.(*App), nil
}

// ServeHTTP takes a request through the gate.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	err := g.app.gate.Serve(w, r, next)
	if err == nil {
		return nil
	}
	var refusal *gate.Refusal
	if errors.As(err, &refusal) {
		return caddyhttp.HandlerError{StatusCode: refusal.Status, Err: refusal}
	}
	return err
}

// server is what the gate needs to know of Caddy.
type server struct{ meter *meter }

// Target implements gate.Server: a rewrite in front of the gate changes
// the request's own.
func (server) Target(r *http.Request) string {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.RequestURI
	}
	return r.RequestURI
}

// Client implements gate.Server: the address that Caddy determined, with
// regard to its trusted_proxies.
func (server) Client(r *http.Request) string {
	client, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return client
}

// Identified implements gate.Server.
func (server) Identified(r *http.Request, call *gate.Call) {
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(call.Lookup)
	}
}

// passedVar is the variable of a request that holds the call which the
// gate let through. Variables are Caddy's state of a request: handlers and
// the configuration can write them, clients cannot.
const passedVar = "tollgate.call"

// Mark implements gate.Server.
func (server) Mark(r *http.Request, call *gate.Call) {
	caddyhttp.SetVar(r.Context(), passedVar, call)
}

// Passed implements gate.Server.
func (server) Passed(r *http.Request) bool {
	call, _ := caddyhttp.GetVar(r.Context(), passedVar).(*gate.Call)
	return call != nil
}

// Status implements gate.Server.
func (server) Status(err error) int {
	var e caddyhttp.HandlerError
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return http.StatusInternalServerError
}

// Count implements gate.Server.
func (s server) Count(endpoint *policy.Endpoint, outcome gate.Outcome) {
	s.meter.count(endpoint, outcome)
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Gate)(nil)
	_ caddyhttp.MiddlewareHandler = (*Gate)(nil)
	_ gate.Server                 = server{}
)
