// Package web has the web pages: Settings with the API keys of an account,
// and My usage with the calls that are left.
//
// The server renders the pages; they work without JavaScript. One small
// script adds a copy button, a countdown and updates of My usage. Pages load
// nothing from other servers.
//
// Each request reads its data anew: plans, keys and counts from the gate,
// e-mails and passwords from package account.
package web

import (
	"cmp"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/session"
)

// Config is what New needs. Every field must be set unless it says
// otherwise.
type Config struct {
	Accounts *account.Service // checks and changes passwords, and signs people up
	Sessions *database.Store
	Gate     *client.Client // calls the control API for plans, keys and counts
	Site                    // what the operator chose

	// Docs has the pages of the reference of the API by their path, one of
	// them at /docs. Empty for none.
	Docs map[string]template.HTML

	// Rates tells how many publications of the bank the rates lack. Nil without
	// the currency API.
	Rates func() int

	Now    func() time.Time
	Logger *slog.Logger // gets what people must not read
}

// Site is what an operator chooses for one site.
type Site struct {
	// Address is the public URL of the site, without a path. With HTTPS
	// the session's cookie is sent over TLS only.
	Address *url.URL

	// Hosts tells which hosts the site has. It takes portal links for these.
	Hosts func(host string) bool

	// Timezone is the zone whose midnight resets the quotas, for the front
	// page. Other pages use the zone of the gate.
	Timezone string

	// SignUp is the plan of accounts that strangers create. Empty: strangers
	// cannot create accounts.
	SignUp string

	// NoRates is for a site without the currency API, in front of another API:
	// the pages have no examples of it, and no link to its docs.
	NoRates bool

	// Brand is what the pages call the product. Default: the currency API.
	Brand Brand
}

// site is the web application.
type site struct {
	Config
	sessions *session.Manager
	views    *views
	mux      *http.ServeMux
	keyring  *gateKeys
	serving  *outage.Log
	portals  *outage.Log
	panics   *outage.Log
}

// New returns the handler of all pages. For an unknown path it answers with
// an error page.
func New(c Config) (http.Handler, error) {
	s, err := newSite(c)
	if err != nil {
		return nil, err
	}
	pages := s.guard(s.loadSession(s.sameOrigin(s.operatorsOnly(http.HandlerFunc(s.route)))))
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.Handle("GET "+staticPrefix, s.views.assets.or(pages))
	return mux, nil
}

func newSite(c Config) (*site, error) {
	if c.Brand.Name == "" && c.NoRates {
		c.Brand.Name = "API"
	}
	c.Brand.Name = cmp.Or(c.Brand.Name, "Currency API")
	views, err := newViews(c.Brand, !c.NoRates)
	if err != nil {
		return nil, err
	}
	sessions := session.NewManager(c.Sessions, c.Now, c.Address.Scheme == "https")
	s := &site{
		Config: c, sessions: sessions, views: views, keyring: new(gateKeys),
		serving: outage.New(c.Logger, slog.LevelError, "serving page"),
		portals: outage.New(c.Logger, slog.LevelWarn, "refused a portal link"),
		panics:  outage.New(c.Logger, slog.LevelError, "page panicked"),
	}
	s.mux = s.routes()
	return s, nil
}

// route serves a page, or an error page for an unknown path or method, or an
// invalid form.
func (s *site) route(w http.ResponseWriter, r *http.Request) {
	var err error
	if _, pattern := s.mux.Handler(r); pattern == "" {
		err = errNotFound
		if methods := s.methods(r); len(methods) > 0 {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			err = errMethod
		}
	} else if r.Method == http.MethodPost {
		err = readForm(w, r)
	}
	if err != nil {
		s.fail(w, r, s.visitor(r), err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// methods returns the methods of the path of a request.
func (s *site) methods(r *http.Request) []string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		asked := r.WithContext(r.Context())
		asked.Method = method
		if _, pattern := s.mux.Handler(asked); pattern != "" {
			methods = append(methods, method)
		}
	}
	return methods
}

// routes returns the routes of the site.
func (s *site) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.open(s.front))
	mux.Handle("GET /settings", http.RedirectHandler(keysPath, http.StatusSeeOther))
	s.routeAccount(mux)
	s.routeKeys(mux)
	mux.HandleFunc("GET "+usagePath, s.signedIn(s.usage))
	s.routeDocs(mux)
	s.routeOperator(mux)
	return mux
}

// form adds a page that shows a form, and takes it.
func form(mux *http.ServeMux, path string, show, take http.HandlerFunc) {
	mux.HandleFunc("GET "+path, show)
	mux.HandleFunc("POST "+path, take)
}

// routeAccount adds the pages about an account.
func (s *site) routeAccount(mux *http.ServeMux) {
	form(mux, "/login", s.open(s.loginForm), s.open(s.login))
	mux.HandleFunc("POST /logout", s.open(s.logout))
	if s.SignUp != "" {
		form(mux, signUpPath, s.open(s.signUpForm), s.open(s.signUp))
	}
	form(mux, resetPath, s.open(s.resetForm), s.open(s.resetPassword))
	form(mux, assertion.PortalPath, s.open(s.portal), s.open(s.portal))
	form(mux, accountPath, s.signedIn(noPortal(s.account)), s.signedIn(noPortal(s.closeAccount)))
	mux.HandleFunc("GET "+accountPath+"/export", s.signedIn(noPortal(s.exportData)))
	form(mux, passwordPath, s.signedInAlone(noPortal(s.passwordForm)), s.signedInAlone(noPortal(s.changePassword)))
	form(mux, "/settings/sessions", s.signedIn(noPortal(s.sessionList)), s.signedIn(noPortal(s.endSessions)))
}

// routeKeys adds the pages about API keys and plans.
func (s *site) routeKeys(mux *http.ServeMux) {
	const one = keysPath + "/{id}"
	mux.HandleFunc("GET "+keysPath, s.signedIn(s.keys))
	mux.HandleFunc("GET "+one, s.signedIn(s.key))
	form(mux, keysPath+"/new", s.signedIn(s.newKey), s.signedIn(s.createKey))
	form(mux, one+"/edit", s.signedIn(s.editKey), s.signedIn(s.changeKey))
	form(mux, one+"/rotate", s.signedIn(s.liveKeyForm("rotate")), s.signedIn(s.rotateKey))
	form(mux, one+"/revoke", s.signedIn(s.liveKeyForm("revoke")), s.signedIn(s.revokeKey))
	mux.HandleFunc("GET /settings/plan", s.signedIn(s.plan))
}

// Paths that several files use.
const (
	keysPath     = "/settings/keys"
	passwordPath = "/settings/password"
	usagePath    = "/usage"
	loginPath    = "/login"
	signUpPath   = "/signup"
	accountPath  = "/settings/account"
	resetPath    = "/reset/{token}"
)

// frontView is the front page.
type frontView struct {
	Address, Timezone string
	SignUp            bool
}

// front shows the front page, or My usage to a person who is signed in.
func (s *site) front(w http.ResponseWriter, r *http.Request) error {
	if _, found := s.sessions.Current(r.Context()); found {
		redirect(w, usagePath, nil)
		return nil
	}
	return s.views.show(w, http.StatusOK, "front", page{Notice: notices[r.URL.Query().Get("done")], Body: frontView{s.Address.String(), s.Timezone, s.SignUp != ""}})
}

// routeDocs adds the reference of the API, if there is one.
func (s *site) routeDocs(mux *http.ServeMux) {
	for path, body := range s.Docs {
		mux.HandleFunc("GET "+path, s.open(func(w http.ResponseWriter, r *http.Request) error {
			return s.views.show(w, http.StatusOK, "docs", s.visitor(r).page("API docs", "docs", body))
		}))
	}
}

// policy allows style, script, icon and form targets of this site, and
// nothing else. Inline scripts do not run, so a mistake in a template cannot
// inject one.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers are those of every page.
//
// The referrer policy is not no-referrer, because browsers would send
// "Origin: null" from our own forms (Fetch, 3.2). Over plain HTTP there is no
// Sec-Fetch-Site, so only the origin shows that a form is ours.
var headers = map[string]string{
	"Cache-Control":                "no-store",
	"Content-Security-Policy":      policy,
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), clipboard-read=(), clipboard-write=(self), geolocation=(), microphone=(), payment=(), usb=()",
	"Referrer-Policy":              "same-origin",
	"Vary":                         "Cookie",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// guard sets the headers of every page and recovers panics.
func (s *site) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		defer s.rescue(w, r)
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses changes from pages of other sites. It comes after
// loadSession, since its error page shows the visit.
func (s *site) sameOrigin(next http.Handler) http.Handler {
	csrf := http.NewCrossOriginProtection()
	allowReset(csrf)
	csrf.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, s.visitor(r), errCrossOrigin)
	}))
	return csrf.Handler(next)
}

// rescue answers with an error page after a panic. The answer has not begun,
// since pages are rendered before they are written.
func (s *site) rescue(w http.ResponseWriter, r *http.Request) {
	reason := recover()
	if reason == nil {
		return
	}
	if reason == http.ErrAbortHandler { // net/http compares it the same way
		panic(reason)
	}
	s.panics.Failed(slog.String("reason", fmt.Sprint(reason)), slog.String("stack", string(debug.Stack())))
	s.showProblem(w, r, nil, errBroken)
}
