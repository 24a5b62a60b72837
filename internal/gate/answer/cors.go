package answer

import (
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/policy"
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
	corsExposed = "RateLimit, RateLimit-Policy, Retry-After, X-Should-Retry, WWW-Authenticate, ETag, Link"
)

// CORS is the ResponseWriter of a request whose answer pages of other origins
// may read. It replaces what the service says about that, when the answer
// begins: a proxy clears all headers after an interim answer.
type CORS struct {
	Writer
	policy *policy.Policy
	origin string // Access-Control-Allow-Origin, or "" if there is none
}

// NewCORS reads the origin now, because handlers behind the gate may change
// the headers of the request. A request with two origins has none.
func NewCORS(w http.ResponseWriter, r *http.Request, p *policy.Policy) *CORS {
	c := &CORS{policy: p}
	c.Writer = Writer{ResponseWriter: w, Owner: c}
	if origins := r.Header["Origin"]; len(origins) == 1 {
		c.origin = p.CORS.Allow(origins[0])
	}
	return c
}

// Preflight returns the method of a request that a page wants to send, if r is
// the request with which a browser asks for it (Fetch standard, section 4.8).
func Preflight(r *http.Request) (method string, ok bool) {
	if r.Method != http.MethodOptions || len(r.Header["Origin"]) == 0 || len(r.Header[requestMethod]) == 0 {
		return "", false
	}
	return r.Header[requestMethod][0], true
}

// Preflight answers a preflight to a path that has these methods.
func (c *CORS) Preflight(r *http.Request, methods string) {
	c.Begin(http.StatusNoContent)
	h := c.Header()
	header.VaryBy(h, requestMethod) // without it, the request is an ordinary one
	if c.origin != "" {
		h.Set(allowMethods, methods)
		h.Set(allowHeaders, corsRequest)
		if own := c.policy.TokenHeader; own != "" {
			h.Set(allowHeaders, corsRequest+", "+own)
		}
		h.Set(maxAge, c.policy.CORS.MaxAge)
	}
	apierror.CloseUnread(c, r)
	c.WriteHeader(http.StatusNoContent)
}

// Answered implements Owner.
func (c *CORS) Answered(int) { c.setHeader() }

// setHeader replaces the headers of CORS. Vary also names the origin in an
// answer to a request without one: a cache would send it to pages.
func (c *CORS) setHeader() {
	h := c.Header()
	for name := range h {
		if len(name) > len(corsPrefix) && strings.EqualFold(name[:len(corsPrefix)], corsPrefix) {
			delete(h, name)
		}
	}
	header.VaryBy(h, "Origin")
	if c.origin != "" {
		h[allowOrigin] = []string{c.origin}
		h[exposeHeaders] = []string{corsExposed}
	}
}
