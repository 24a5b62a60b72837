package gate

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// credential is what finds the account of a request: a token, or the identity
// that another handler has authenticated.
type credential struct {
	// hash finds the token. It stands for the account of an identity.
	hash token.Hash
	// whole is another hash to try: that of a foreign token with its prefix.
	whole   token.Hash
	isSplit bool // hash is without the prefix, and whole is set
	foreign bool // the gate did not make the token
	account string
}

// isIdentity tells whether the account is known without a token.
func (c *credential) isIdentity() bool { return c.account != "" }

// shown is what a request has where tokens belong.
type shown struct {
	token string // the last one
	count int
	own   bool // one of them claims to be a token of the gate
}

func (s *shown) add(text string) {
	s.token, s.own, s.count = text, s.own || token.IsOwn(text), s.count+1
}

// credentials finds the token or the identity of a request to an endpoint.
// A token in the query string is refused and not ignored (RFC 6750, 5.3): the
// client should learn that every log on the way has it now.
func (g *Gate) credentials(r *http.Request, e *policy.Endpoint, held headers) (credential, *Refusal) {
	if held.upgradeRefused {
		return credential{}, refuseUpgrade
	}
	if refusal := checkQuery(r.URL.RawQuery); refusal != nil {
		return credential{}, refusal
	}
	found := g.shown(r.Header, e, held)
	if g.Policy.Identity != nil && !found.own {
		if id := g.Server.Identity(r, g.Policy.Identity.Placeholder); id != "" {
			return g.identity(id)
		}
	}
	switch {
	case found.count > 1:
		return credential{}, refuseRequest
	case found.token == "":
		return credential{}, refuseUnauthenticated
	}
	return g.parse(found.token)
}

// shown collects the tokens of a request. The Authorization of an endpoint
// that keeps it is the service's own if there is a token elsewhere.
func (g *Gate) shown(h http.Header, e *policy.Endpoint, held headers) (s shown) {
	if name := g.Policy.TokenHeader; name != "" {
		for _, value := range h[name] {
			s.add(textproto.TrimString(value))
		}
	}
	if e.Upgrade {
		for _, protocol := range bearerProtocols(h) {
			s.add(protocol[len(bearerProtocol):])
		}
	}
	elsewhere := s.count > 0
	for _, field := range held.authorization {
		text := bearer(field)
		if !elsewhere || !e.KeepAuthorization || token.IsOwn(text) {
			s.add(text)
		}
	}
	return s
}

// ownToken returns the first valid token of the gate in the Authorization
// fields, also of a request that credentials refuses. It may be revoked.
func ownToken(fields []string) (found credential, ok bool) {
	for _, field := range fields {
		if hash, _, err := token.Parse(bearer(field)); err == nil {
			return credential{hash: hash}, true
		}
	}
	return credential{}, false
}

// bearer returns the token of an Authorization field (RFC 6750, 2.1), or ""
// if it has none.
func bearer(field string) string {
	scheme, text, _ := strings.Cut(field, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(text, " ")
}

// parse reads a token.
func (g *Gate) parse(text string) (credential, *Refusal) {
	if hash, _, err := token.Parse(text); err == nil {
		return credential{hash: hash}, nil
	}
	if !g.Policy.ForeignKeys || !token.IsForeign(text) {
		return credential{}, refuseInvalidToken
	}
	c := credential{hash: token.Foreign(text), foreign: true}
	if hash, found := token.SplitPrefix(text); found {
		c.hash, c.whole, c.isSplit = hash, c.hash, true
	}
	return c, nil
}

// identity is the credential of a user that another handler has authenticated.
func (g *Gate) identity(id string) (credential, *Refusal) {
	account := g.Policy.Identity.Prefix + id
	if !api.ValidAccount(account) {
		return credential{}, refuseIdentity
	}
	return credential{hash: token.OfAccount(account), account: account}, nil
}

// bearerProtocol is the prefix of a WebSocket subprotocol that is a token.
// Pages in a browser cannot set other headers of a WebSocket.
const bearerProtocol = "tollgate.bearer."

// gateProtocol is the subprotocol that the gate answers for a service that
// chooses none. Browsers that offer subprotocols need one in the answer.
const gateProtocol = "tollgate"

const protocolHeader = "Sec-Websocket-Protocol"

// bearerProtocols returns the subprotocols that are tokens.
func bearerProtocols(h http.Header) (found []string) {
	for _, value := range h[protocolHeader] {
		for protocol := range strings.SplitSeq(value, ",") {
			if protocol = textproto.TrimString(protocol); strings.HasPrefix(protocol, bearerProtocol) {
				found = append(found, protocol)
			}
		}
	}
	return found
}

// takeProtocols removes the gate's own subprotocols from a request whose
// token is one of them. It tells whether the client offers gateProtocol.
func takeProtocols(h http.Header) (offered bool) {
	if len(bearerProtocols(h)) == 0 {
		return false
	}
	var kept []string
	for _, value := range h[protocolHeader] {
		for protocol := range strings.SplitSeq(value, ",") {
			protocol = textproto.TrimString(protocol)
			offered = offered || protocol == gateProtocol
			if protocol != "" && protocol != gateProtocol && !strings.HasPrefix(protocol, bearerProtocol) {
				kept = append(kept, protocol)
			}
		}
	}
	delete(h, protocolHeader)
	if len(kept) > 0 {
		h[protocolHeader] = []string{strings.Join(kept, ", ")}
	}
	return offered
}

// answerProtocol chooses gateProtocol if the client offers it and the service
// has chosen none.
func (c *Call) answerProtocol(h http.Header) {
	if c.protocol && h[protocolHeader] == nil {
		h[protocolHeader] = []string{gateProtocol}
	}
}

// takeCredentials removes from a request what the service must not see.
func (c *Call) takeCredentials(h http.Header, held headers) {
	// Deleted first: a map of up to eight fields is small.
	if !c.endpoint.KeepAuthorization {
		delete(h, "Authorization")
	}
	if held.cookie && !c.endpoint.KeepCookie {
		delete(h, "Cookie")
	}
	if name := c.gate.Policy.TokenHeader; name != "" {
		delete(h, name)
	}
	if c.endpoint.Upgrade {
		c.protocol = takeProtocols(h)
	}
}

func checkQuery(query string) *Refusal {
	if query != "" && carriesToken(query) {
		return refuseRequest
	}
	return nil
}

// carriesToken tells whether a query string has a parameter for a token, in
// any spelling of its name.
func carriesToken(query string) bool {
	for query != "" {
		var pair string
		pair, query = cutAny(query, "&;")
		name, _, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(name, "%+") {
			if plain, err := url.QueryUnescape(name); err == nil {
				name = plain
			}
		}
		if strings.EqualFold(name, "access_token") || strings.EqualFold(name, "api_key") {
			return true
		}
	}
	return false
}

// cutAny splits at the first of several separators: some servers split
// parameters at semicolons too.
func cutAny(s, separators string) (before, after string) {
	if i := strings.IndexAny(s, separators); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}
