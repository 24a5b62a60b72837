package credential

import (
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

const (
	// bearerProtocol is the prefix of a WebSocket subprotocol that is a token.
	// Pages in a browser cannot set other headers of a WebSocket.
	bearerProtocol = "tollgate.bearer."

	// gateProtocol is the subprotocol that the gate answers for a service that
	// chooses none. Browsers that offer subprotocols need one in the answer.
	gateProtocol = "tollgate"
)

// subprotocol is a token among the subprotocols of a WebSocket.
type subprotocol struct{}

func (subprotocol) token(r Request, position int, _ bool) (string, bool) {
	if !r.Facts.Protocols || !r.Endpoint.Upgrade {
		return "", false
	}
	for protocol := range header.Elements(r.Header[request.ProtocolHeader]) {
		text, found := strings.CutPrefix(protocol, bearerProtocol)
		if found && position == 0 {
			return text, true
		}
		if found {
			position--
		}
	}
	return "", false
}

// hasToken tells whether one of the subprotocols is a token. Only then the gate
// has subprotocols of its own.
func hasToken(protocols []string) bool {
	for protocol := range header.Elements(protocols) {
		if strings.HasPrefix(protocol, bearerProtocol) {
			return true
		}
	}
	return false
}

func (subprotocol) remove(h http.Header, _ *policy.Endpoint) {
	if h[request.ProtocolHeader] == nil || !hasToken(h[request.ProtocolHeader]) {
		return
	}
	header.Filter(h, request.ProtocolHeader, func(protocol string) string {
		if protocol == gateProtocol || strings.HasPrefix(protocol, bearerProtocol) {
			return ""
		}
		return protocol
	})
}

// AnswerProtocol chooses gateProtocol in the answer to a request with a token
// as a subprotocol, if the client offers it and the service has chosen none.
// Caddy's proxy spells the header of the service as RFC 6455 does, and not as
// net/http.
func AnswerProtocol(answer http.Header, asked []string) {
	if !hasToken(asked) {
		return
	}
	for name := range answer {
		if strings.EqualFold(name, request.ProtocolHeader) {
			return
		}
	}
	for protocol := range header.Elements(asked) {
		if protocol == gateProtocol {
			answer[request.ProtocolHeader] = []string{gateProtocol}
		}
	}
}
