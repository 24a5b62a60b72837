// Package server routes the requests of the upstream: an API and the login
// behind the gate, the health check and the web pages. It knows no part of them.
//
// New returns an http.Handler without global state. Serve runs a handler on
// a listener, with timeouts and a graceful shutdown.
package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

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
	// it. Login answers POST /api/login, and Pages all other paths but the health
	// check. Their POST /login checks passwords, so it gets only requests from
	// the gate.
	API, Login, Pages http.Handler

	// SignUp is true if Pages let strangers create accounts by POST
	// /signup. The gate should throttle these requests.
	SignUp bool

	// Database is part of the health check, and so are the age of the rates and
	// the state of the gate, unless they are nil.
	Database Pinger
	Rates    func() any
	Gate     func() string

	// Metrics are for Prometheus. Without any there is no such page.
	Metrics []prometheus.Collector

	// Logger gets what clients must not read.
	Logger *slog.Logger
}

// New returns the handler of the whole upstream.
func New(c Config) http.Handler {
	gate := newGatekeeper(c.Check, c.Logger)
	checks := &health{c, outage.New(c.Logger, slog.LevelError, "checking health")}
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

// pingTimeout is how long the database may take to answer a health check.
const pingTimeout = 2 * time.Second

// Pinger is a part with a health check.
type Pinger interface {
	Ping(ctx context.Context) error
}

// health answers GET /healthz: 200 while the upstream can serve, 503 when
// its database does not answer. Old rates and an unreachable gate do not cause a
// 503: a load balancer could not send the requests elsewhere, and the API still
// serves. The check does not call the gate, because the gate may be the
// client: it tells what the last check in the background found.
type health struct {
	Config
	outage *outage.Log
}

type healthAnswer struct {
	Status string `json:"status"`
	// Gate is "ok", or what is wrong with the gate.
	Gate string `json:"gate,omitempty"`
	// Rates is missing without the currency API.
	Rates any `json:"rates,omitempty"`
}

func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found := healthAnswer{Status: "ok"}
	if h.Rates != nil {
		found.Rates = h.Rates()
	}
	if h.Gate != nil {
		found.Gate = h.Gate()
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	err := h.Database.Ping(ctx)
	if err == nil {
		h.outage.Worked()
		body, err := json.Marshal(found)
		if err != nil {
			panic(err) // impossible: the types are valid JSON
		}
		w.Header().Set("Content-Type", apierror.ContentType)
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(body) // if this fails, the client is gone
		return
	}
	if r.Context().Err() == nil {
		h.outage.Failed(slog.Any("error", err))
	}
	refusal := apierror.New(http.StatusServiceUnavailable, "unavailable", "The account database does not answer.").
		With("status", "unavailable").WithHeader("Retry-After", "5")
	if found.Rates != nil {
		refusal = refusal.With("rates", found.Rates)
	}
	if found.Gate != "" {
		refusal = refusal.With("gate", found.Gate)
	}
	send(w, refusal)
}
