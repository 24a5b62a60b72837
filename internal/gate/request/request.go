// Package request reads the headers and the body of a request, and makes the
// request for the service of it.
package request

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// ProtocolHeader is the header with the subprotocols of a WebSocket. One of
// them can be a token.
const ProtocolHeader = "Sec-Websocket-Protocol"

// Facts are facts about the headers of a request. Read collects them: another
// look at the map would take as long as all of its loop.
type Facts struct {
	Authorization []string
	Protocols     bool // the request has ProtocolHeader
	// UpgradeRefused tells that the request asks for another protocol, and the
	// endpoint does not switch protocols.
	UpgradeRefused bool

	upgrade, connection bool // the request has the header
	switches            bool // the request may switch protocols
	escapes             bool // it asks for another version of HTTP, see protocols
}

// Read reads the headers of a request to a route. It removes those that
// clients must not set, an identity and another target than that of the request
// line, from the request that all handlers share: also placeholders read it, and
// the error routes of a refused request.
func Read(r *http.Request, to policy.Route) (facts Facts) {
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
				facts.Authorization = values
			}
		case 'C':
			facts.connection = facts.connection || name == "Connection"
		case 'U':
			facts.upgrade = facts.upgrade || name == "Upgrade"
		case 'S':
			facts.Protocols = facts.Protocols || name == ProtocolHeader
			forbidden = forbidden || header.IsForbidden(name)
		case 'H', 'P', 'T', 't', 'X', 'x':
			forbidden = forbidden || header.IsForbidden(name)
		}
	}
	if forbidden {
		maps.DeleteFunc(h, func(name string, _ []string) bool { return header.IsForbidden(name) })
	}
	// Trailers arrive after all checks, under any name and not only the
	// announced ones, and some servers merge them into the headers.
	r.Trailer = nil
	if facts.upgrade || r.Method == http.MethodConnect {
		facts.readUpgrade(r, to)
	}
	return facts
}

// readUpgrade finds out whether the request asks for another protocol, and
// whether it may: outside the gate's routes, and at an endpoint with the option
// upgrade.
func (facts *Facts) readUpgrade(r *http.Request, to policy.Route) {
	escapes, others := protocols(r.Header["Upgrade"])
	facts.escapes = escapes
	asks := others && facts.connection && httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade")
	if asks || r.Method == http.MethodConnect {
		facts.switches = !escapes && !to.Login && to.Operations == nil && (to.Endpoint == nil || to.Endpoint.Upgrade)
		facts.UpgradeRefused = !facts.switches && to.Endpoint != nil
	}
}

// protocols tells whether an upgrade asks for an escape (HTTP or TLS) and
// for other protocols. After an escape, the service would read requests
// from a connection that the gate no longer sees, and all of the API would
// be open. Some clients, such as Java's, offer HTTP/2 with each request, so
// the gate ignores an escape and does not refuse it (RFC 9110, 7.8).
func protocols(upgrade []string) (escapes, others bool) {
	for protocol := range header.Elements(upgrade) {
		name, _, _ := strings.Cut(strings.ToLower(protocol), "/")
		switch name {
		case "":
		case "h2c", "h2", "http", "tls":
			escapes = true
		default:
			others = true
		}
	}
	return escapes, others
}

// Method returns the method that a request has for a service: that of the
// WebSocket of HTTP/3 (RFC 9220) and HTTP/2 (RFC 8441) is GET, by the rules of
// Caddy's proxy. The gate refuses all others with the method CONNECT.
func Method(r *http.Request) string {
	if r.Method != http.MethodConnect {
		return r.Method
	}
	if r.ProtoMajor == 2 && slices.Equal(r.Header[":protocol"], []string{"websocket"}) || r.ProtoMajor == 3 && r.Proto == "websocket" {
		return http.MethodGet
	}
	return r.Method
}

// PassUpgrade lets an upgrade pass that the endpoint does not allow, for mode
// shadow. An escape never passes.
func (facts *Facts) PassUpgrade() { facts.switches = !facts.escapes }

// KeepConnection keeps what the client says about the connection, for mode
// shadow, except an escape.
func (facts *Facts) KeepConnection() {
	facts.upgrade, facts.connection = facts.upgrade && facts.escapes, facts.connection && facts.escapes
}

// filterConnection keeps close, keep-alive and an allowed upgrade. Any other
// option of Connection names a header that the proxy would drop after the
// gate has set it (RFC 9110, 7.6.1).
func filterConnection(h http.Header, upgrade bool) {
	values := h["Connection"]
	if len(values) == 1 && (values[0] == "close" || values[0] == "keep-alive") {
		return
	}
	header.Filter(h, "Connection", func(option string) string {
		switch option = strings.ToLower(option); {
		case option == "close" || option == "keep-alive":
			return option
		case option == "upgrade" && upgrade:
			return "Upgrade"
		}
		return ""
	})
}
