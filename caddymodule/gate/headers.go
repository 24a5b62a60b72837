package gate

import (
	"maps"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// seen is what clean came by that is looked for later: to look for it
// again would take as long as all of the walk.
type seen struct {
	authorization               []string
	cookie, upgrade, connection bool

	token token.Hash // of authorization, once it was looked at
}

// clean removes what no client may say: who it is, and what it meant to
// ask instead.
func clean(r *http.Request) (found seen) {
	h := r.Header
	forbidden := false
	for name, values := range h {
		// Most names are none of these: one look at the first letter.
		if name == "" {
			continue
		}
		switch name[0] {
		case 'A':
			if name == "Authorization" {
				found.authorization = values
			}
		case 'C':
			found.connection = found.connection || name == "Connection"
			found.cookie = found.cookie || name == "Cookie"
		case 'U':
			found.upgrade = found.upgrade || name == "Upgrade"
		case 'H', 'P', 'S', 'T', 't', 'X', 'x':
			forbidden = forbidden || isForbidden(name)
		}
	}
	if forbidden {
		maps.DeleteFunc(h, func(name string, _ []string) bool { return isForbidden(name) })
	}
	// Trailers arrive after everything was checked, under any name and not
	// only those announced, and some servers merge them into the headers.
	r.Trailer = nil
	return found
}

// isForbidden recognises headers that no client may send.
func isForbidden(name string) bool {
	// Caddy's proxy sets X-Forwarded-Host anew, but no other spelling of it.
	return isIdentity(name) || name == "Trailer" || name != "X-Forwarded-Host" && isOverride(canonical(name))
}

// unmark removes the mark and the gate's headers from a request whose call
// failed or was given back, or whose login attempt is settled. A handler
// that answers in place of the upstream must not pass with them.
func (g *Gate) unmark(r *http.Request) {
	g.Server.Mark(r, nil)
	for _, name := range [...]string{
		"Tollgate-Account", "Tollgate-Plan", "Tollgate-Key", "Tollgate-Abilities", assertion.Header, assertion.ProofHeader,
	} {
		delete(r.Header, name)
	}
}

// prove adds the static proof if it is configured.
func (g *Gate) prove(h http.Header) {
	if g.Proof != "" {
		h[assertion.ProofHeader] = []string{g.Proof}
	}
}

// cleanConnection removes what says which headers the proxy should drop on
// the way, and every upgrade but those that are allowed: outside of the
// gate's routes, and at an endpoint with the option upgrade. It reports
// whether the request asks an endpoint for one that it does not allow.
func (found *seen) cleanConnection(h http.Header, endpoint *policy.Endpoint, routed bool) (refused bool) {
	upgrade := found.upgrade && found.connection && httpguts.HeaderValuesContainsToken(h["Connection"], "upgrade")
	if upgrade {
		escapes, others := protocols(h["Upgrade"])
		upgrade = others && !escapes && (!routed || endpoint != nil && endpoint.Upgrade)
		refused = others && !upgrade && endpoint != nil
	}
	if found.upgrade && !upgrade {
		delete(h, "Upgrade")
	}
	if found.connection {
		keepConnection(h, upgrade)
	}
	return refused
}

var refuseUpgrade = fixed(http.StatusBadRequest, "upgrade_not_allowed", "This endpoint does not switch protocols. Send the request without Upgrade.", Malformed)

// protocols tells what an upgrade asks for: an escape, which is another
// HTTP or TLS, and other protocols. An upstream that agrees to an escape
// would go on to take requests out of a connection that the gate no longer
// sees: all of the API would be open to them. Clients offer an upgrade to
// HTTP/2 with plain requests, such as those of Java do, so it is ignored
// and not refused (RFC 9110, 7.8).
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

// identity begins all headers by which the gate speaks to the upstream.
const identity = "tollgate-"

// isIdentity recognises the gate's headers in any spelling that a server
// might take for them: in any case, with an underscore or a dot for the
// dash, as CGI and its heirs rewrite names.
func isIdentity(name string) bool {
	if len(name) < len(identity) {
		return false
	}
	for i := range len(identity) {
		if plain(name[i]) != identity[i] {
			return false
		}
	}
	return true
}

func plain(b byte) byte {
	switch {
	case b == '_' || b == '.':
		return '-'
	case 'A' <= b && b <= 'Z':
		return b + 'a' - 'A'
	}
	return b
}

// canonical is the name as net/http writes it, with dashes. It copies
// only what needs it.
func canonical(name string) string {
	if strings.ContainsAny(name, "_.") {
		name = strings.NewReplacer("_", "-", ".", "-").Replace(name)
	}
	return http.CanonicalHeaderKey(name)
}

// keepConnection keeps the words that are about the connection. Any
// other would name a header for the proxy to drop after the gate has set
// it (RFC 9110, 7.6.1).
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
