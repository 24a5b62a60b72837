package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// policy lets a page load its own style, script and icon, send its forms
// home, and nothing else. Styles and scripts in the page itself do not
// run, so that a mistake in a template cannot become one.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers are those of every page.
//
// The referrer policy is not no-referrer: with that one, browsers send
// "Origin: null" from our own forms (Fetch, 3.2), and over plain HTTP,
// where Sec-Fetch-Site is missing, the origin is all there is to tell a
// form of ours from somebody else's.
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

// guard sets the headers of every page and answers for those that panic.
func (s *site) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		defer s.rescue(w, r)
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses changes that another site's page asks for. It comes
// after the session is found, for a page that knows who is there.
func (s *site) sameOrigin(next http.Handler) http.Handler {
	csrf := http.NewCrossOriginProtection()
	csrf.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, s.visitor(r), errCrossOrigin)
	}))
	return csrf.Handler(next)
}

// rescue answers with a page where a handler panics. Pages are rendered
// whole before the answer begins, so that there is none to be cut off.
func (s *site) rescue(w http.ResponseWriter, r *http.Request) {
	reason := recover()
	if reason == nil {
		return
	}
	if reason == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
		panic(reason)
	}
	s.panics.Failed(slog.String("reason", fmt.Sprint(reason)), slog.String("stack", string(debug.Stack())))
	s.views.problem(w, s.leadOn(r, broken))
}
