package gate

import (
	"io"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
)

// isShadow tells whether the gate only reports calls that break a rule.
func (g *Gate) isShadow() bool { return g.Policy.Mode == policy.Shadow }

// confirm returns the refusal of a call, or another one if shadow must not
// let it pass: a cached grant may be of a key that is revoked, or of an account
// that is disabled. If the store has returned rooms, it has checked the grant.
func (c *Call) confirm(refusal *Refusal) *Refusal {
	if refusal == nil || !c.shadow || c.unsure || !c.grant.Cached || c.rooms != nil {
		return refusal
	}
	if failed := c.renew(true); failed != nil {
		return failed
	}
	c.effective = nil // of the plan and the abilities of the old grant
	return refusal
}

// letPass reports the refusal of a call that shadow passes. An upgrade passes
// as at an endpoint that allows upgrades.
func (c *Call) letPass(refusal *Refusal, held *headers) {
	c.gate.report(c.grant.Account, c.endpoint, refusal)
	c.uncounted = true
	held.switches = held.switches || refusal == refuseUpgrade && !held.escapes
}

// letPass reports a refusal and passes the request on, as if there were no
// gate.
func (g *Gate) letPass(w http.ResponseWriter, r *http.Request, e *policy.Endpoint, f *Refusal, held headers, next Handler) error {
	g.report("", e, f)
	return passUnchanged(w, r, held, next)
}

// passUnchanged passes a request on, and changes neither the request nor its
// answer. The headers that a client must not set stay removed: an identity,
// another target, and another version of HTTP within the connection. Each of
// them would bypass what shadow refuses. The request has no call: a second
// gate may find that it is a login.
func passUnchanged(w http.ResponseWriter, r *http.Request, held headers, next Handler) error {
	held.upgrade, held.connection = held.upgrade && held.escapes, held.connection && held.escapes
	f := held.forwarded(r)
	if b := watchBody(f, r); b != nil {
		a := new(answer)
		a.start(w, nil, b)
		defer a.begin(0) // the server answers if the handler has not
		w = a
	}
	return next.ServeHTTP(w, f)
}

// partBody is a body whose first part the gate has read, until err if that is
// not nil.
type partBody struct {
	io.ReadCloser
	read []byte
	err  error
}

// Read returns what the gate has read, and then the rest.
func (b *partBody) Read(p []byte) (int, error) {
	if len(b.read) > 0 {
		n := copy(p, b.read)
		b.read = b.read[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}
