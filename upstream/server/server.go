// Package server puts the parts of the upstream together: the currency
// API and the login behind the gate, the health check and the
// web pages.
//
// New returns a plain http.Handler without global state, so that it runs
// in a process of its own as well as mounted in another server. Serve is
// that process's part: a listener with timeouts that ends gracefully.
package server

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
)

// Config is what New needs. Every field must be set.
type Config struct {
	// Check returns nil for a request that the gate sent for a purpose,
	// assertion.Call or assertion.Login, and otherwise why it is refused.
	Check func(r *http.Request, purpose string) error

	// API answers the currency API below /api/, /openapi.json and /docs.
	API http.Handler

	// Logins checks passwords and issues tokens.
	Logins Logins

	// Database is asked for its health.
	Database Pinger

	// Rates is asked for the age of its rates.
	Rates Rates

	// Pages answers every path that is neither API nor health check. Its
	// POST /login checks passwords too, and gets only what came through
	// the gate.
	Pages http.Handler

	// SignUp tells that Pages let strangers make accounts, by POST
	// /signup: the gate should throttle that, too.
	SignUp bool

	// Now is the clock.
	Now func() time.Time

	// Logger is told what clients are not.
	Logger *slog.Logger
}

// New returns the handler of the whole upstream.
func New(c Config) http.Handler {
	logins := &login{logins: c.Logins, outage: outage.New(c.Logger, slog.LevelError, "logging in")}
	gate := newGatekeeper(c.Check, c.Logger)
	checks := &health{database: c.Database, rates: c.Rates, now: c.Now, outage: outage.New(c.Logger, slog.LevelError, "checking health")}
	open := http.NewServeMux()
	open.Handle("/api/login", gate.require(assertion.Login, only("POST /api/login", logins)))
	open.Handle("/api/", gate.require(assertion.Call, c.API))
	open.Handle("/api", gate.require(assertion.Call, apierror.Mux(http.NewServeMux()))) // 404 instead of a redirect to /api/
	open.Handle("/openapi.json", c.API)
	open.Handle("/docs", c.API)
	open.Handle("/healthz", only("GET /healthz", checks))
	open.Handle("POST /login", gate.require(assertion.Login, c.Pages))
	if c.SignUp {
		open.Handle("POST /signup", gate.warnUnthrottled(c.Pages))
	}
	open.Handle("/", c.Pages)
	return noSniff(recoverer(c.Logger, apierror.Mux(open)))
}

// noSniff keeps browsers from guessing at the type of any answer: text in
// it must not become a page.
func noSniff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// only serves one pattern and refuses other methods on its path with 405,
// where they would fall through to the handler of a shorter path.
func only(pattern string, handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(pattern, handler)
	return apierror.Mux(mux)
}

// send writes a refusal. Nobody is left to tell when that fails: the
// client is gone.
func send(w http.ResponseWriter, refusal *apierror.Error) { _ = refusal.Write(w) }
