package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
)

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
