package request

import (
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
)

// Passage is a request on its way through the handlers behind the gate. They
// get the request of the handlers in front, with other headers and another
// body, and not a copy: Caddy's placeholders read the request that the server
// made, so a copy would hide from them what the gate and the handlers behind it
// change. When the answer begins, the handlers in front get back the headers that
// the client sent. Without it, a cache in front would store an answer as that of
// a request without a token.
//
// The headers are changed in their map, because other handlers in front make
// copies of the request that share it, such as forward_auth and tracing.
type Passage struct {
	// Body is that of the request if the gate watches it, or nil.
	Body *Body

	request *http.Request
	method  string
	body    io.ReadCloser // that of the handlers in front
	names   []string
	sent    [7][]string // by the index in names
	given   bool
}

// AcceptEncoding is the header that asks a service for an answer that the gate can
// read.
const AcceptEncoding = "Accept-Encoding"

// Connection are the headers that Begin changes.
var Connection = []string{"Connection", "Upgrade"}

// Begin starts the passage of a request. It keeps the headers of these names,
// at most 7: Connection, and those that the gate will change.
func (p *Passage) Begin(r *http.Request, facts Facts, names []string) {
	p.request, p.method, p.body, p.names = r, r.Method, r.Body, names
	for i, name := range names {
		p.sent[i] = r.Header[name]
	}
	if facts.upgrade && !facts.switches {
		delete(r.Header, "Upgrade")
	}
	if facts.connection {
		filterConnection(r.Header, facts.switches)
	}
	switch read, ok := r.Body.(*Buffered); {
	case ok:
		r.Body = Buffer(read.text)
	case r.Body != nil && r.ContentLength != 0: // some servers wrap the body of a request without one
		p.Body = &Body{ReadCloser: r.Body, request: r}
		r.Body = p.Body
	}
}

// Sent returns the values of a header that Begin has kept, as the client sent
// them.
func (p *Passage) Sent(name string) []string {
	if i := slices.Index(p.names, name); i >= 0 {
		return p.sent[i]
	}
	return nil
}

// End gives the handlers in front the headers as the client sent them; if the
// handlers behind have returned, also the rest of the request: until then, they
// may read the body. It does nothing if the passage has not begun.
//
// If the client is gone, it leaves the map of the headers alone: a cache that
// runs the handlers behind it beside its own code may read it, and Go ends a
// program that reads and writes a map at once.
func (p *Passage) End(returned bool) {
	r := p.request
	if r == nil {
		return
	}
	if !p.given {
		p.given = true
		if r.Context().Err() != nil {
			r.Header = maps.Clone(r.Header)
		}
		h := r.Header
		for _, name := range [...]string{"Tollgate-Account", "Tollgate-Plan", "Tollgate-Key", "Tollgate-Abilities", assertion.Header} {
			delete(h, name)
		}
		for i, name := range p.names {
			if p.sent[i] != nil {
				h[name] = p.sent[i]
			} else if name == AcceptEncoding { // the gate can have set it
				delete(h, name)
			}
		}
	}
	if !returned {
		return
	}
	switch r.Body.(type) {
	case *Body, *Buffered: // others are of handlers, or of Caddy's placeholder of the body
		r.Body = p.body
	}
	r.Method = p.method
	p.request = nil
}
