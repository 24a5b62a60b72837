package gate

import (
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// The headers of CORS in canonical form (Fetch standard, section 3.3).
const (
	corsPrefix    = "Access-Control-"
	allowOrigin   = corsPrefix + "Allow-Origin"
	allowMethods  = corsPrefix + "Allow-Methods"
	allowHeaders  = corsPrefix + "Allow-Headers"
	maxAge        = corsPrefix + "Max-Age"
	exposeHeaders = corsPrefix + "Expose-Headers"
	requestMethod = corsPrefix + "Request-Method"
)

const (
	// corsRequest are the headers of requests that pages may set.
	corsRequest = "Authorization, Content-Type, If-None-Match"
	// corsExposed are the headers of answers that pages may read.
	corsExposed = "RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, ETag"
)

// isPreflight recognises the request with which a browser asks if a page may
// send another one (Fetch standard, section 4.8).
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Origin"]) > 0 && len(r.Header[requestMethod]) > 0
}

// sharesAnswers tells whether the gate decides which pages may read the answer
// to a request: below a guard. In mode shadow the service decides, but for the
// gate's own endpoint.
func (g *Gate) sharesAnswers(r *http.Request, to destination) bool {
	if !g.isShadow() {
		return to.Closed
	}
	if isPreflight(r) {
		to.Route, _ = g.Policy.Routes.Match(r.Header.Get(requestMethod), r.URL.Path)
	}
	return to.Endpoint != nil && to.Endpoint.Usage
}

// corsAnswer is the ResponseWriter of a request whose answer pages of other
// origins may read. It replaces what the service says about that, when the
// answer begins: a proxy clears all headers after an interim answer.
type corsAnswer struct {
	beginning
	origin string // Access-Control-Allow-Origin, or "" if there is none
	begun  bool
}

// newCORSAnswer reads the origin now, because handlers behind the gate may
// change the headers of the request. A request with two origins has none.
func (g *Gate) newCORSAnswer(w http.ResponseWriter, r *http.Request) *corsAnswer {
	a := new(corsAnswer)
	a.beginning = beginning{w, a}
	if origins := r.Header["Origin"]; len(origins) == 1 {
		a.origin = g.Policy.CORS.Allow(origins[0])
	}
	return a
}

// preflight answers a preflight to a path that has a route. It tells whether
// it has answered.
func (g *Gate) preflight(a *corsAnswer, r *http.Request) bool {
	if !isPreflight(r) {
		return false
	}
	methods := g.Policy.Routes.Allow(r.URL.Path)
	if methods == "" {
		return false
	}
	g.Server.Count(nil, Preflight)
	a.begin(http.StatusNoContent)
	h := a.Header()
	varyBy(h, requestMethod) // without it, the request is an ordinary one
	if a.origin != "" {
		h.Set(allowMethods, methods)
		h.Set(allowHeaders, corsRequest)
		if own := g.Policy.TokenHeader; own != "" {
			h.Set(allowHeaders, corsRequest+", "+own)
		}
		h.Set(maxAge, g.Policy.CORS.MaxAge)
	}
	apierror.CloseUnread(a, r)
	a.WriteHeader(http.StatusNoContent)
	return true
}

// setHeader replaces the headers of CORS. Vary also names the origin in an
// answer to a request without one: a cache would send it to pages.
func (a *corsAnswer) setHeader() {
	h := a.Header()
	for name := range h {
		if len(name) > len(corsPrefix) && strings.EqualFold(name[:len(corsPrefix)], corsPrefix) {
			delete(h, name)
		}
	}
	varyBy(h, "Origin")
	if a.origin != "" {
		h[allowOrigin] = []string{a.origin}
		h[exposeHeaders] = []string{corsExposed}
	}
}

// begin sets the headers of the final answer, once.
func (a *corsAnswer) begin(int) {
	if !a.begun {
		a.begun = true
		a.setHeader()
	}
}

// interim sets the headers of an answer with a status 1xx too.
func (a *corsAnswer) interim() { a.setHeader() }
