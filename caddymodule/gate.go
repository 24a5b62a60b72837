package caddymodule

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/metrics"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

func init() {
	caddy.RegisterModule((*Gate)(nil))
	httpcaddyfile.RegisterDirective("tollgate", parseGate)
	// After all directives that rewrite a request, so that the gate checks
	// what the upstream gets, and before all that answer it.
	httpcaddyfile.RegisterDirectiveOrder("tollgate", httpcaddyfile.Before, "request_header")
}

// Gate checks API keys, applies quotas and rate limits, and meters usage in
// front of an HTTP API. It passes admitted requests to the next handler.
// Its configuration is the app tollgate. If a request meets the handler
// twice, the second one passes what the first one admitted.
//
// It sets {http.auth.user.id} to the account, so that access logs show it,
// and {http.tollgate.endpoint}, {http.tollgate.plan}, {http.tollgate.key},
// {http.tollgate.identity}, {http.tollgate.limit} and
// {http.tollgate.remaining}. The last two show the account's limit of the
// endpoint for the day. If there is none, they show the first limit of the
// RateLimit fields. They are "unlimited" for a call without limits.
// {http.tollgate.call} is an object with account, key, endpoint, day, cost and
// code. For a token that was revoked, that expired or whose account is disabled,
// it sets {http.auth.candidate.id} to the account, and {http.tollgate.key}.
// For handle_errors, {http.tollgate.code} and {http.tollgate.message} are those
// of the refusal, or of a service that did not answer.
//
// It adds {http.tollgate.call} to the line of the access log as call, and the id
// of the request as request_id.
type Gate struct {
	app *App
}

// CaddyModule returns the Caddy module information.
func (*Gate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.tollgate", New: func() caddy.Module { return new(Gate) }}
}

// Provision finds the app.
func (g *Gate) Provision(ctx caddy.Context) (err error) {
	g.app, err = Configured(ctx)
	return err
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	// Without logs, no access log has the request.
	if s, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && s.Logs != nil && markOf(r) == nil {
		// The id is made now: see gate.Server.RequestID. The fields are added later,
		// and deferred, because the proxy panics if an answer breaks off.
		id, _ := replacer(r).GetString("http.request.uuid")
		defer addFields(r, id)
	}
	err := g.app.gate.Serve(w, r, next)
	if err == nil {
		return nil
	}
	f, refused := errors.AsType[*refusal.Refusal](err)
	if !refused {
		f = refusal.Unanswered(server{}.Status(err))
	}
	if f != nil {
		repl := replacer(r)
		repl.Set("http.tollgate.code", f.Code)
		repl.Set("http.tollgate.message", f.Message)
	}
	if refused {
		return caddyhttp.HandlerError{StatusCode: f.Status, Err: f}
	}
	return err
}

// gateFields is the key of the field that addFields adds.
const gateFields = "tollgate"

// addFields adds the id of a request and its call to its line of the access log,
// when the cost of the call is settled. log_append would miss answers that break
// off. It is one field, because Set costs more than a short line.
func addFields(r *http.Request, id string) {
	fields := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	call, _ := replacer(r).Get("http.tollgate.call")
	field := zap.Inline(zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error {
		to.AddString("request_id", id)
		if call, there := call.(gate.Logged); there {
			return to.AddObject("call", loggedCall(call))
		}
		return nil
	}))
	field.Key = gateFields // Set replaces a field with the same key
	fields.Set(field)
}

// loggedCall is encoded without reflection.
type loggedCall gate.Logged

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (l loggedCall) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString("account", l.Account)
	to.AddString("key", l.Key)
	to.AddString("endpoint", l.Endpoint)
	to.AddString("day", l.Day.String())
	to.AddInt64("cost", l.Cost)
	to.AddString("code", l.Code)
	return nil
}

// server implements gate.Server with Caddy.
type server struct{ *metrics.Meter }

// Identity implements gate.Server.
func (s server) Identity(r *http.Request, placeholder string) string {
	if user, identified := replacer(r).GetString("http.tollgate.identity"); identified {
		return user
	}
	return s.Placeholder(r, placeholder)
}

// Placeholder implements gate.Server.
func (server) Placeholder(r *http.Request, placeholder string) string {
	if strings.HasPrefix(placeholder, policy.ClientCertificate) && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		return ""
	}
	return replacer(r).ReplaceAll(placeholder, "")
}

// Identified implements gate.Server.
func (server) Identified(r *http.Request, call *gate.Call) {
	repl := replacer(r)
	// The user of a handler in front of the gate would hide the account.
	repl.Delete("http.auth.user.id")
	repl.Map(call.Lookup)
}

// Ended implements gate.Server: access logs can show whose token was refused.
func (server) Ended(r *http.Request, account, key string) {
	repl := replacer(r)
	repl.Set("http.auth.candidate.id", account)
	repl.Set("http.tollgate.key", key)
}

// RequestID implements gate.Server. Caddy makes the id of a request when it is
// first used, and keeps it. A request with an access log has it: see ServeHTTP.
func (server) RequestID(r *http.Request, shown bool) string {
	if shown && caddyhttp.GetVar(r.Context(), "uuid") == nil {
		return ""
	}
	id, _ := replacer(r).GetString("http.request.uuid")
	return id
}

// Mark implements gate.Server. It sets the variable of a request once: a proxy
// that dials in the background may read the variables after the answer, and Go
// ends a program that reads and writes a map at once. Caddy keeps the original
// request, which rewrites in front of the gate do not change, and applies its
// trusted_proxies to the client.
func (server) Mark(r *http.Request) *gate.Mark {
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	m, _ := vars[markVar].(*gate.Mark)
	if m == nil {
		m = &gate.Mark{Target: r.RequestURI}
		if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
			m.Target = original.RequestURI
		}
		m.Client, _ = vars[caddyhttp.ClientIPVarKey].(string)
		caddyhttp.SetVar(r.Context(), markVar, m)
	}
	return m
}

// Status implements gate.Server.
func (server) Status(err error) int {
	if e, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		return e.StatusCode
	}
	return http.StatusInternalServerError
}

// Proxied implements gate.Server.
func (server) Proxied(r *http.Request) bool {
	_, proxied := replacer(r).Get("http.reverse_proxy.upstream.hostport")
	return proxied
}

// RemoveQuery implements gate.Server. Caddy restores the original URL before
// its error routes.
func (server) RemoveQuery(r *http.Request) {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		original.URL.RawQuery = ""
	}
}

// replacer returns the placeholders of a request. Caddy sets them before all
// handlers.
func replacer(r *http.Request) *caddy.Replacer {
	return r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Gate)(nil)
	_ caddyhttp.MiddlewareHandler = (*Gate)(nil)
	_ gate.Server                 = server{}
)
