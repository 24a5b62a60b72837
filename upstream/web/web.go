// Package web is what people see in their browsers: Settings, where they
// make API keys, and My usage, where they watch what is left of the day.
//
// Pages are rendered here and work without JavaScript; one small script
// adds a copy button, a countdown and a usage page that updates itself.
// Nothing is loaded from elsewhere, and nothing is built.
//
// What the pages show is asked for when they are asked for: plans, keys
// and counts from the gate, people and passwords from package account. No
// page has a second list of anything.
package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/web/session"
)

// Config is what New needs. Every field must be set unless it says
// otherwise.
type Config struct {
	// Accounts checks and changes passwords, and signs people up.
	Accounts *account.Service

	// Sessions keeps who is signed in.
	Sessions Sessions

	// Gate knows plans, keys and counts.
	Gate *client.Client

	// Address is the public URL of the site, without a path. With HTTPS
	// the session's cookie is sent over TLS only.
	Address *url.URL

	// Timezone is the name of the zone whose midnight resets the quotas,
	// for the page that people see before they sign in. All others ask
	// the gate.
	Timezone string

	// SignUp lets strangers make an account on the plan free. Off by
	// default.
	SignUp bool

	// Now is the clock.
	Now func() time.Time

	// Logger is told what people are not.
	Logger *slog.Logger
}

// site is the web application.
type site struct {
	Config
	sessions *session.Manager
	views    *views
	pages    *http.ServeMux
	serving  *outage.Log
	panics   *outage.Log
}

// New returns the handler of all pages. It answers every path: one that
// is none of its own with a page that says so.
func New(c Config) (http.Handler, error) {
	s, err := newSite(c)
	if err != nil {
		return nil, err
	}
	pages := s.guard(s.loadSession(s.sameOrigin(http.HandlerFunc(s.route))))
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.Handle("GET "+staticPrefix, s.views.assets.or(pages))
	return mux, nil
}

func newSite(c Config) (*site, error) {
	views, err := newViews()
	if err != nil {
		return nil, err
	}
	sessions := session.NewManager(c.Sessions, c.Now, c.Address.Scheme == "https")
	s := &site{
		Config: c, sessions: sessions, views: views,
		serving: outage.New(c.Logger, slog.LevelError, "serving page"),
		panics:  outage.New(c.Logger, slog.LevelError, "page panicked"),
	}
	s.pages = s.routes()
	return s, nil
}

// route serves the page that a request asks for, and says so where there
// is none, or none for this method.
func (s *site) route(w http.ResponseWriter, r *http.Request) {
	if _, pattern := s.pages.Handler(r); pattern != "" {
		s.pages.ServeHTTP(w, r)
		return
	}
	err := errNotFound
	if methods := s.methods(r); len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		err = errMethod
	}
	s.fail(w, r, s.visitor(r), err)
}

// methods returns those that the path of a request has a page for.
func (s *site) methods(r *http.Request) []string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		asked := r.WithContext(r.Context())
		asked.Method = method
		if _, pattern := s.pages.Handler(asked); pattern != "" {
			methods = append(methods, method)
		}
	}
	return methods
}

// routes is the map of the site.
func (s *site) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.open(s.front))
	mux.HandleFunc("GET /login", s.open(s.loginForm))
	mux.HandleFunc("POST /login", s.open(s.login))
	mux.HandleFunc("POST /logout", s.open(s.logout))
	if s.SignUp {
		mux.HandleFunc("GET "+signUpPath, s.open(s.signUpForm))
		mux.HandleFunc("POST "+signUpPath, s.open(s.signUp))
	}
	mux.HandleFunc("GET /usage", s.signedIn(s.usage))
	mux.HandleFunc("GET /usage/calls", s.signedIn(s.calls))
	mux.Handle("GET /settings", http.RedirectHandler(keysPath, http.StatusSeeOther))
	mux.HandleFunc("GET /settings/keys", s.signedIn(s.keys))
	mux.HandleFunc("GET /settings/keys/new", s.signedIn(s.newKey))
	mux.HandleFunc("POST /settings/keys/new", s.signedIn(s.createKey))
	mux.HandleFunc("GET /settings/keys/{id}", s.signedIn(s.key))
	mux.HandleFunc("GET /settings/keys/{id}/rotate", s.signedIn(s.rotateForm))
	mux.HandleFunc("POST /settings/keys/{id}/rotate", s.signedIn(s.rotateKey))
	mux.HandleFunc("GET /settings/keys/{id}/revoke", s.signedIn(s.revokeForm))
	mux.HandleFunc("POST /settings/keys/{id}/revoke", s.signedIn(s.revokeKey))
	mux.HandleFunc("GET /settings/plan", s.signedIn(s.plan))
	mux.HandleFunc("GET "+passwordPath, s.signedInAlone(s.passwordForm))
	mux.HandleFunc("POST "+passwordPath, s.signedInAlone(s.changePassword))
	mux.HandleFunc("GET /settings/sessions", s.signedIn(s.sessionList))
	mux.HandleFunc("POST /settings/sessions", s.signedIn(s.endSessions))
	return mux
}

// Paths that pages refer to each other by.
const (
	keysPath     = "/settings/keys"
	passwordPath = "/settings/password"
	usagePath    = "/usage"
	loginPath    = "/login"
	signUpPath   = "/signup"
)
