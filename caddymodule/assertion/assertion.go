// Package assertion is what proves the gate to a service: a JSON Web
// Token in the header Tollgate-Assertion that says whose call it is.
//
// The key pair comes from the gate's secret, so all gates with one secret
// sign with one key. A service needs the public key only, and cannot sign.
// A Signer makes assertions for the gate, a Verifier checks them for a
// service in Go. Any JWT library can do the same with the KeySet.
package assertion

import (
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Header is the request header that carries an assertion.
const Header = "Tollgate-Assertion"

// Issuer is the claim iss of every assertion.
const Issuer = "tollgate"

// Lifetime is the time from the claim iat to the claim exp.
const Lifetime = 5 * time.Minute

// The purposes of an assertion. No assertion is valid for two.
const (
	// Call is for one call of an account to an endpoint. The claim
	// purpose is absent.
	Call = ""
	// Login is for one attempt to log in, which the gate has throttled.
	// It names no account.
	Login = "login"
	// Portal is for one visit of the web pages, by a link that the gate made
	// for an account. The claim jti names the link: accept it once.
	Portal = "portal"
)

// PortalPath is the path of the page that takes portal links.
const PortalPath = "/portal"

// algorithm is the only one that is signed with and accepted.
const algorithm = jose.ES256

// Claims are the content of an assertion. Those from Plan to Key are
// empty in a login and in a portal link.
type Claims struct {
	Issuer string `json:"iss"`
	// Audience is the host that the client asked, in lower case and
	// without a port. In a portal link it is the URL of the page that takes
	// it, so that no verifier of calls accepts the link (RFC 8725, 3.12).
	Audience string `json:"aud"`
	// Account is who is billed for the call.
	Account string `json:"sub,omitempty"`
	// Plan is the plan of the account.
	Plan string `json:"plan,omitempty"`
	// Abilities are what the key and the plan allow, separated by spaces.
	Abilities string `json:"scope,omitempty"`
	// Key is the id of the key that the call was made with.
	Key string `json:"client_id,omitempty"`
	// Purpose is Call, Login or Portal.
	Purpose string `json:"purpose,omitempty"`
	// ID is another text in each portal link. Other assertions have none.
	ID string `json:"jti,omitempty"`
	// IssuedAt and ExpiresAt are in seconds since 1970-01-01 UTC.
	IssuedAt  int64 `json:"iat"`
	ExpiresAt int64 `json:"exp"`
}

func (c Claims) size() int {
	return len(c.Issuer) + len(c.Audience) + len(c.Account) + len(c.Plan) + len(c.Abilities) + len(c.Key) + len(c.Purpose)
}

// Audience returns the audience of a request from its Host header: the
// host in lower case, without the port and without the brackets of an
// IPv6 address.
func Audience(host string) string {
	at := url.URL{Host: host}
	return strings.ToLower(at.Hostname())
}
