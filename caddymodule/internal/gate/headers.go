package gate

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
)

// headers are facts about the headers of a request. readHeaders collects
// them: another look at the map would take as long as all of its loop.
type headers struct {
	authorization               []string
	cookie, upgrade, connection bool
	protocol                    bool // a list of subprotocols
	switches                    bool // the request may switch protocols
	escapes                     bool // it asks for another version of HTTP, see protocols
	upgradeRefused              bool // the endpoint does not switch protocols
}

// readHeaders reads the headers of a request to a route. It removes those that
// clients must not set, an identity and another target than that of the request
// line, from the request that all handlers share: also placeholders read it, and
// the error routes of a refused request.
func readHeaders(r *http.Request, to policy.Route) (held headers) {
	h := r.Header
	forbidden := false
	for name, values := range h {
		// The first letter excludes most names.
		if name == "" {
			continue
		}
		switch name[0] {
		case 'A':
			if name == "Authorization" {
				held.authorization = values
			}
		case 'C':
			held.connection = held.connection || name == "Connection"
			held.cookie = held.cookie || name == "Cookie"
		case 'U':
			held.upgrade = held.upgrade || name == "Upgrade"
		case 'S':
			held.protocol = held.protocol || name == ProtocolHeader
			forbidden = forbidden || isForbidden(name)
		case 'H', 'P', 'T', 't', 'X', 'x':
			forbidden = forbidden || isForbidden(name)
		}
	}
	if forbidden {
		maps.DeleteFunc(h, func(name string, _ []string) bool { return isForbidden(name) })
	}
	// Trailers arrive after all checks, under any name and not only the
	// announced ones, and some servers merge them into the headers.
	r.Trailer = nil
	held.readUpgrade(r, to)
	return held
}

// readUpgrade finds out whether the request asks for another protocol, and
// whether it may: outside the gate's routes, and at an endpoint with the option
// upgrade.
func (held *headers) readUpgrade(r *http.Request, to policy.Route) {
	asks := isExtendedConnect(r)
	if held.upgrade {
		var others bool
		held.escapes, others = protocols(r.Header["Upgrade"])
		asks = asks || others && held.connection && httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade")
	}
	if asks {
		held.switches = !held.escapes && !to.Login && (to.Endpoint == nil || to.Endpoint.Upgrade)
		held.upgradeRefused = !held.switches && to.Endpoint != nil
	}
}

// isExtendedConnect recognises the WebSocket of HTTP/3 (RFC 9220) and HTTP/2
// (RFC 8441) by the rules of Caddy's proxy, which makes a GET of it.
func isExtendedConnect(r *http.Request) bool {
	if r.Method != http.MethodConnect {
		return false
	}
	if r.ProtoMajor == 2 {
		return slices.Equal(r.Header[":protocol"], []string{"websocket"})
	}
	return r.ProtoMajor == 3 && r.Proto == "websocket"
}

// methodOf returns the method that a request has for a service.
func methodOf(r *http.Request) string {
	if isExtendedConnect(r) {
		return http.MethodGet
	}
	return r.Method
}

// forward makes f the request for the handlers behind the gate. It is a copy:
// the handlers in front of the gate go on to see what the client sent. With one
// request for both, a cache in front would store an answer as that of a request
// without a token.
func (held headers) forward(f, r *http.Request) {
	*f = *r
	f.Header = maps.Clone(r.Header)
	if held.upgrade && !held.switches {
		delete(f.Header, "Upgrade")
	}
	if held.connection {
		keepConnection(f.Header, held.switches)
	}
	if read, ok := r.Body.(readBody); ok {
		f.Body, f.ContentLength, f.TransferEncoding = newReadBody(read.text), int64(len(read.text)), nil
	}
}

// forwarded returns the request for the handlers behind the gate.
func (held headers) forwarded(r *http.Request) *http.Request {
	f := new(http.Request)
	held.forward(f, r)
	return f
}

// removeSecrets removes from a request what an error route must not pass on: the
// token, the session, and what the client says about the connection.
func (g *Gate) removeSecrets(r *http.Request) {
	for _, name := range [...]string{"Authorization", "Cookie", "Connection", "Upgrade"} {
		delete(r.Header, name)
	}
	if name := g.Policy.TokenHeader; name != "" {
		delete(r.Header, name)
	}
	if r.Header[ProtocolHeader] != nil {
		removeProtocols(r.Header)
	}
	if carriesToken(r.URL.RawQuery) {
		g.Server.RemoveQuery(r)
	}
}

// unmark removes the mark and the gate's headers from a request whose call
// failed or was refunded, or whose login attempt has ended. A handler that
// answers instead of the upstream must not get them.
func (g *Gate) unmark(r *http.Request) {
	g.Server.Mark(r, nil)
	for _, name := range [...]string{"Tollgate-Account", "Tollgate-Plan", "Tollgate-Key", "Tollgate-Abilities", assertion.Header} {
		delete(r.Header, name)
	}
}

// Removes tells whether the gate removes a header from all requests. The name
// is in canonical form.
func Removes(name string) bool { return isForbidden(name) }

// isForbidden recognises headers that no client may send.
func isForbidden(name string) bool {
	// Caddy's proxy overwrites X-Forwarded-Host, but no other spelling of it.
	return isIdentity(name) || name == "Trailer" || name != "X-Forwarded-Host" && isOverride(canonical(name))
}

var refuseUpgrade = fixed(http.StatusBadRequest, "upgrade_not_allowed", "This endpoint does not switch protocols. Send the request without Upgrade.", Malformed)

// protocols tells whether an upgrade asks for an escape (HTTP or TLS) and
// for other protocols. After an escape, the upstream would read requests
// from a connection that the gate no longer sees, and all of the API would
// be open. Some clients, such as Java's, offer HTTP/2 with each request, so
// the gate ignores an escape and does not refuse it (RFC 9110, 7.8).
func protocols(upgrade []string) (escapes, others bool) {
	for _, value := range upgrade {
		for protocol := range strings.SplitSeq(strings.ToLower(value), ",") {
			protocol, _, _ = strings.Cut(strings.TrimSpace(protocol), "/")
			switch protocol {
			case "":
			case "h2c", "h2", "http", "tls":
				escapes = true
			default:
				others = true
			}
		}
	}
	return escapes, others
}

// identity is the prefix of the headers that the gate sets for upstreams.
const identity = "tollgate-"

// isIdentity recognises the gate's headers in any spelling that some server
// reads: in any case, with an underscore or a dot for the dash, as CGI
// rewrites names.
func isIdentity(name string) bool {
	if len(name) < len(identity) {
		return false
	}
	for i := range len(identity) {
		if lower(name[i]) != identity[i] {
			return false
		}
	}
	return true
}

// lower returns an ASCII letter in lower case, and a dash for its variants.
func lower(b byte) byte {
	switch {
	case b == '_' || b == '.':
		return '-'
	case 'A' <= b && b <= 'Z':
		return b + 'a' - 'A'
	}
	return b
}

// canonical is the name as net/http writes it, with dashes.
func canonical(name string) string {
	if strings.ContainsAny(name, "_.") {
		name = strings.NewReplacer("_", "-", ".", "-").Replace(name)
	}
	return http.CanonicalHeaderKey(name)
}

// keepConnection keeps close, keep-alive and an allowed upgrade. Any other
// option of Connection names a header that the proxy would drop after the
// gate has set it (RFC 9110, 7.6.1).
func keepConnection(h http.Header, upgrade bool) {
	values := h["Connection"]
	if len(values) == 1 && (values[0] == "close" || values[0] == "keep-alive") {
		return
	}
	var kept []string
	for _, value := range values {
		for word := range strings.SplitSeq(value, ",") {
			switch word = strings.ToLower(strings.TrimSpace(word)); word {
			case "close", "keep-alive":
				kept = append(kept, word)
			case "upgrade":
				if upgrade {
					kept = append(kept, "Upgrade")
				}
			}
		}
	}
	if len(kept) == 0 {
		delete(h, "Connection")
		return
	}
	h["Connection"] = []string{strings.Join(kept, ", ")}
}
