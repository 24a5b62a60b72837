package gate

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/internal/gate/credential"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// enforces tells whether the gate refuses requests to an endpoint, or without
// one. In mode shadow, it does for its own endpoint only.
func (g *Gate) enforces(e *policy.Endpoint) bool {
	return g.Policy.Mode != policy.Shadow || e != nil && e.Usage
}

// passRefused decides whether mode shadow passes a refused request, and reports
// the refusal if it does. A call with a valid token passes as an admitted one.
// The refusal may change: an invalid token is refused, also in a request with
// another fault.
func (g *Gate) passRefused(r *http.Request, d *decision) bool {
	if d.unread {
		if by, known := g.credentials.Known(credential.Request{Request: r, Route: d.Route, Facts: d.facts}); known {
			fault := d.refusal
			d.refusal = nil
			if g.identify(r, d, by); !d.final {
				d.refusal = fault
			}
		}
	}
	account := d.account
	if c := d.call; c != nil {
		if failed := c.confirm(); failed != nil {
			d.refusal = failed
		}
		d.final = c.unconfirmed || d.refusal.IsInvalidToken()
		account = c.grant.Account
	}
	if d.final || d.Endpoint == nil && g.isLoginAlias(r, d) {
		return false
	}
	g.report(account, d.Endpoint, d.refusal)
	if d.call != nil {
		d.call.uncounted, d.mark.refusal = true, d.refusal
		if d.refusal == refusal.Upgrade {
			d.facts.PassUpgrade()
		}
	}
	return true
}

// confirm reads the grant of a refused call again if it is from a cache: its
// key may be revoked, and its account disabled. If the store has returned
// rooms, it has checked the grant. The call may have been refused before its
// abilities were found.
func (c *Call) confirm() *refusal.Refusal {
	if c.unconfirmed {
		return nil
	}
	if c.grant.Cached && c.rooms == nil {
		if failed := c.renew(true); failed != nil {
			return failed
		}
	}
	c.abilities = ""
	if plan := c.gate.Policy.Plan(c.grant.Plan); plan.HasAccess() {
		c.abilities = plan.Effective(c.tokenAbilities(plan)).Abilities
	}
	return nil
}
