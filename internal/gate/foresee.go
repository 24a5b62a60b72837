package gate

import (
	"net/http"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
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
	// Cost is what the call costs or reserves, 0 without a valid token.
	Cost int64
	// Limits are those that cover the call, and Rooms what they admit at At.
	Limits []store.Limit
	Rooms  []store.Room
	At     time.Time
	// Refusal is nil if mode enforce passes the request. Step is the step that
	// refuses it: path, route, token, address, entitlement, cost or quota.
	Refusal *refusal.Refusal
	Step    string
	// Passes tells whether the mode of the gate passes the request.
	Passes bool
}

// Foresee returns what Serve would decide about a request whose headers are valid
// and whose body has elements. It counts what the store, the server and the
// reporter of the gate count.
func (g *Gate) Foresee(r *http.Request, elements int64) Foreseen {
	quiet := *g
	quiet.foresees = true
	quiet.bodyCost = func(*http.Request, *policy.Endpoint) (int64, *refusal.Refusal) { return max(1, elements), nil }
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
		x.Cost, x.Account, x.Plan, x.Anonymous = c.cost, c.grant.Account, c.grant.Plan, c.credential.IsAnonymous()
		if c.plan != nil && len(c.limits) > 0 && (c.rooms != nil || c.readRooms() == nil) {
			x.Limits, x.Rooms, x.At = c.limits, c.rooms, c.began
		}
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
	case d.call == nil:
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
