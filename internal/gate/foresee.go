package gate

import (
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/gate/tell"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// Foreseen is what the gate would decide about a request.
type Foreseen struct {
	// Route is the zero Route for an open path.
	Route policy.Route
	// Account and Plan are those of the call, if there is one. Anonymous tells
	// that the request needs no credential.
	Account, Plan string
	Anonymous     bool
	// Special tells that there are several ways to read the path.
	Special bool
	// Left is zero without a valid token.
	Left
	// Refusal is nil if mode enforce passes the request. Step is the step that
	// refuses it: path, route, token, address, entitlement, cost or quota.
	Refusal *refusal.Refusal
	Step    string
	// Passes tells whether the mode of the gate passes the request.
	Passes bool
}

// Foresee returns what Serve would decide about a request whose headers are valid
// and whose body has elements, or reserves as many. It counts what the store, the
// server and the reporter of the gate count.
func (g *Gate) Foresee(r *http.Request, elements int64) Foreseen {
	quiet := *g
	quiet.foresees = true
	quiet.bodyCost = func(_ *http.Request, e *policy.Endpoint) (int64, *refusal.Refusal) {
		if e.Answer == nil {
			return max(1, elements), nil
		}
		return max(1, elements, tell.Reservation(e.Cost, e.Answer.Scale)), nil
	}
	mark := g.Server.Mark(r)
	d := quiet.route(r, mark.Target)
	d.mark, d.began, d.facts = mark, g.Now(), request.Read(r, d.Route)
	if d.refusal == nil && d.Endpoint != nil {
		quiet.decide(r, &d)
		if own := d.mark.reservation; own != nil {
			g.Reservations.settled(own)
			g.Reservations.forget(own)
		}
	}
	x := Foreseen{Route: d.Route, Special: d.Special != "", Passes: true}
	if c := d.call; c != nil {
		x.Left, x.Account, x.Plan, x.Anonymous = c.left(), c.grant.Account, c.grant.Plan, c.credential.IsAnonymous()
	}
	if d.refusal != nil {
		x.Step = d.refusedBy(r)
		x.Passes = !g.enforces(d.Endpoint) && quiet.passRefused(r, &d)
		x.Refusal = d.refusal // mode shadow may find another one
	}
	return x
}

// refusedBy returns the step that refuses the request.
func (d *decision) refusedBy(r *http.Request) string {
	f := d.refusal
	switch {
	case f == refusal.BadPath, strings.EqualFold(r.Method, http.MethodConnect), strings.EqualFold(r.Method, http.MethodTrace):
		return "path"
	case d.Endpoint == nil:
		return "route"
	case d.call == nil, f.Code == "unauthenticated":
		return "token"
	case f.Code == "address_not_allowed":
		return "address"
	case f.Code == "cost_above_limit":
		return "cost"
	case f.Status == http.StatusTooManyRequests:
		return "quota"
	}
	return "entitlement"
}
