package credential

import (
	"slices"

	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// anonymous is what a request without a credential has.
var anonymous = OfAccount(policy.AnonymousAccount)

// IsAnonymous tells whether the request has no credential.
func (c *Credential) IsAnonymous() bool { return c.Account == policy.AnonymousAccount && c.User == "" }

// admitsAnonymous tells whether an endpoint, or one that the body can choose, needs no
// credential. A token in a place where the gate takes none is still a credential.
func (rd *Reader) admitsAnonymous(r Request) bool {
	if rd.policy.Anonymous == nil || hasToken(r.Header[request.ProtocolHeader]) {
		return false
	}
	lists := rd.policy.Anonymous.Plan.Lists
	if !lists(r.Endpoint) && (r.Operations == nil || !slices.ContainsFunc(r.Operations.List, lists)) {
		return false
	}
	for _, values := range r.Header {
		if slices.ContainsFunc(values, rd.policy.IsOwn) {
			return false
		}
	}
	return true
}
