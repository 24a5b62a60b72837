package gate

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// credential is what finds the account of a request: a token, or the identity
// that another handler has authenticated.
type credential struct {
	// hash finds the token. It stands for the account of an identity.
	hash token.Hash
	// whole is the hash of the whole text of a token that the gate did not make,
	// and zero for others. hash differs if the token has a prefix.
	whole token.Hash
	// user and account are those of an identity.
	user, account string
}

// isIdentity tells whether the account is known without a token.
func (c *credential) isIdentity() bool { return c.account != "" }

// isForeign tells whether the gate did not make the token.
func (c *credential) isForeign() bool { return c.whole != token.Hash{} }

// credentialOf finds the token or the identity of a request to an endpoint.
// A token in the query string is refused and not ignored (RFC 6750, 5.3): the
// client should learn that every log on the way has it now.
func (g *Gate) credentialOf(r *http.Request, e *policy.Endpoint, held headers) (credential, *Refusal) {
	if held.upgradeRefused {
		return credential{}, refuseUpgrade
	}
	if refusal := checkQuery(r.URL.RawQuery); refusal != nil {
		return credential{}, refusal
	}
	var few [2]string
	texts := g.tokensOf(few[:0], r.Header, e, held)
	if g.Policy.Identity != nil && !slices.ContainsFunc(texts, token.IsOwn) {
		if by, found := g.identityOf(r); found {
			return by, nil
		}
	}
	switch {
	case len(texts) > 1:
		return credential{}, refuseRequest
	case (len(texts) == 0 || texts[0] == "") && len(held.authorization) > 0:
		return credential{}, noBearer
	case len(texts) == 0 || texts[0] == "":
		return credential{}, g.unauthenticated
	}
	return g.parse(texts[0])
}

// tokensOf appends the tokens of a request. An Authorization without a token
// is an empty one. That of an endpoint that keeps it is the service's own if
// there is a token elsewhere.
func (g *Gate) tokensOf(texts []string, h http.Header, e *policy.Endpoint, held headers) []string {
	if name := g.Policy.TokenHeader; name != "" {
		for _, value := range h[name] {
			texts = append(texts, textproto.TrimString(value))
		}
	}
	if e.Upgrade && held.protocol {
		for _, protocol := range bearerProtocols(h) {
			texts = append(texts, protocol[len(bearerProtocol):])
		}
	}
	elsewhere := len(texts) > 0
	for _, field := range held.authorization {
		text := bearer(field)
		if !elsewhere || !e.KeepAuthorization || token.IsOwn(text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// knownCredential returns the first valid token of the gate, or else the
// identity, of a request that credentialOf refuses. The token may be revoked,
// and the account disabled.
func (g *Gate) knownCredential(r *http.Request, e *policy.Endpoint, held headers) (by credential, found bool) {
	texts := g.tokensOf(nil, r.Header, e, held)
	for _, text := range texts {
		if hash, _, err := token.Parse(text); err == nil {
			return credential{hash: hash}, true
		}
	}
	if slices.ContainsFunc(texts, token.IsOwn) {
		return credential{}, false
	}
	return g.identityOf(r)
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
	whole := token.Foreign(text)
	if hash, found := token.SplitPrefix(text); found {
		return credential{hash: hash, whole: whole}, nil
	}
	return credential{hash: whole, whole: whole}, nil
}

// identityOf is the credential of a user that another handler has
// authenticated.
func (g *Gate) identityOf(r *http.Request) (by credential, found bool) {
	identity := g.Policy.Identity
	if identity == nil {
		return credential{}, false
	}
	user := g.Server.Identity(r, identity.Placeholder)
	if user == "" {
		return credential{}, false
	}
	account := identity.Account(user)
	return credential{hash: token.OfAccount(account), user: user, account: account}, true
}

// bearerProtocol is the prefix of a WebSocket subprotocol that is a token.
// Pages in a browser cannot set other headers of a WebSocket.
const bearerProtocol = "tollgate.bearer."

// gateProtocol is the subprotocol that the gate answers for a service that
// chooses none. Browsers that offer subprotocols need one in the answer.
const gateProtocol = "tollgate"

// ProtocolHeader is the header with the subprotocols of a WebSocket. One of
// them can be a token.
const ProtocolHeader = "Sec-Websocket-Protocol"

// bearerProtocols returns the subprotocols that are tokens.
func bearerProtocols(h http.Header) (found []string) {
	for _, value := range h[ProtocolHeader] {
		for protocol := range strings.SplitSeq(value, ",") {
			if protocol = textproto.TrimString(protocol); strings.HasPrefix(protocol, bearerProtocol) {
				found = append(found, protocol)
			}
		}
	}
	return found
}

// removeProtocols removes the gate's own subprotocols from a request whose
// token is one of them. It tells whether the client offers gateProtocol.
func removeProtocols(h http.Header) (offered bool) {
	if len(bearerProtocols(h)) == 0 {
		return false
	}
	var kept []string
	for _, value := range h[ProtocolHeader] {
		for protocol := range strings.SplitSeq(value, ",") {
			protocol = textproto.TrimString(protocol)
			offered = offered || protocol == gateProtocol
			if protocol != "" && protocol != gateProtocol && !strings.HasPrefix(protocol, bearerProtocol) {
				kept = append(kept, protocol)
			}
		}
	}
	delete(h, ProtocolHeader)
	if len(kept) > 0 {
		h[ProtocolHeader] = []string{strings.Join(kept, ", ")}
	}
	return offered
}

// answerProtocol chooses gateProtocol if the client offers it and the service
// has chosen none.
func (c *Call) answerProtocol(h http.Header) {
	if c.protocol && h[ProtocolHeader] == nil {
		h[ProtocolHeader] = []string{gateProtocol}
	}
}

// removeCredentials removes from a request what the service must not see.
func (c *Call) removeCredentials(h http.Header, held headers) {
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
	if held.protocol {
		c.protocol = removeProtocols(h)
	}
}

func checkQuery(query string) *Refusal {
	if query != "" && carriesToken(query) {
		return refuseRequest
	}
	return nil
}

// carriesToken tells whether a query string has a parameter for a token, in
// any spelling of its name, such as apiKey and access-token, or a token of the
// gate under any name. Other names, such as key and token, can be parameters of
// the service.
func carriesToken(query string) bool {
	for pair := range strings.FieldsFuncSeq(query, separates) {
		name, value, _ := strings.Cut(pair, "=")
		name = unescaped(name)
		if spells(name, "accesstoken") || spells(name, "apikey") {
			return true
		}
		if value = unescaped(value); token.IsOwn(value) {
			if _, _, err := token.Parse(value); err == nil {
				return true
			}
		}
	}
	return false
}

// unescaped decodes a part of a query. It returns a malformed one as it is.
func unescaped(text string) string {
	if strings.ContainsAny(text, "%+") {
		if plain, err := url.QueryUnescape(text); err == nil {
			return plain
		}
	}
	return text
}

// spells tells whether a name is a word in lower case, in any case and with any
// dashes, dots and underscores.
func spells(name, word string) bool {
	for i := range len(name) {
		switch b := lower(name[i]); {
		case b == '-':
		case word == "" || b != word[0]:
			return false
		default:
			word = word[1:]
		}
	}
	return word == ""
}

// separates tells whether a character ends a parameter: some servers split at
// semicolons too.
func separates(c rune) bool { return c == '&' || c == ';' }
