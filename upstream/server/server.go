// Package server routes the requests of the upstream: an API and the login
// behind the gate, the health check and the web pages. It knows no part of them.
//
// New returns an http.Handler without global state. Serve runs a handler on
// a listener, with timeouts and a graceful shutdown.
package server

import (
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// Config is what New needs. Every field must be set unless it says otherwise.
type Config struct {
	// Check returns nil for a request that the gate sent for a purpose,
	// assertion.Call or assertion.Login, and otherwise why it is refused.
	Check func(r *http.Request, purpose string) error

	// API answers paths below /api/, and /openapi.json. Nil for a site without
	// it.
	API http.Handler

	// Login answers POST /api/login.
	Login http.Handler

	// Database is part of the health check.
	Database Pinger

	// Rates is a part of the answer of the health check. Nil for a site
	// without the currency API.
	Rates func() any

	// Metrics are for Prometheus. Without any there is no such page.
	Metrics []prometheus.Collector

	// Gate returns the state of the gate, for the health check. Nil to leave
	// it out.
	Gate func() string

	// Pages answers all paths except API and health check. Its POST /login
	// checks passwords, so it gets only requests from the gate.
	Pages http.Handler

	// SignUp is true if Pages let strangers create accounts by POST
	// /signup. The gate should throttle these requests.
	SignUp bool

	// Logger gets what clients must not read.
	Logger *slog.Logger
}

// New returns the handler of the whole upstream.
func New(c Config) http.Handler {
	gate := newGatekeeper(c.Check, c.Logger)
	checks := &health{database: c.Database, rates: c.Rates, gate: c.Gate, outage: outage.New(c.Logger, slog.LevelError, "checking health")}
	unknown := apierror.Routes(nil)
	routes := map[string]http.Handler{
		"/api/login":  gate.require(assertion.Login, only("POST /api/login", c.Login)),
		"/api/":       unknown,
		"/api":        unknown, // instead of a redirect to /api/
		"/healthz":    only("GET /healthz", checks),
		"POST /login": gate.require(assertion.Login, c.Pages),
		"/":           c.Pages,
	}
	if c.API != nil {
		routes["/api/"] = gate.require(assertion.Call, c.API)
		routes["/api"] = gate.require(assertion.Call, unknown)
		routes["/openapi.json"] = c.API
	}
	if len(c.Metrics) > 0 {
		registry := prometheus.NewRegistry()
		registry.MustRegister(c.Metrics...)
		routes["/metrics"] = only("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	}
	if c.SignUp {
		routes["POST /signup"] = gate.warnUnthrottled(c.Pages)
	}
	return noSniff(recoverer(c.Logger, apierror.Routes(routes)))
}

// noSniff stops browsers from guessing the type of an answer: text must not
// be shown as a page.
func noSniff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// only serves one pattern and refuses other methods on its path with 405.
// Without it they would reach the handler of a shorter path.
func only(pattern string, handler http.Handler) http.Handler {
	return apierror.Routes(map[string]http.Handler{pattern: handler})
}

// send writes a refusal. If that fails, the client is gone; ignore the error.
func send(w http.ResponseWriter, refusal *apierror.Error) { _ = refusal.Write(w) }

// sendJSON answers with a value that must not be cached.
func sendJSON(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // impossible: the types are valid JSON
	}
	w.Header().Set("Content-Type", apierror.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	// If this fails, the client is gone; ignore the error.
	_, _ = w.Write(body)
}
