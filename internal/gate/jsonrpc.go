package gate

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/internal/gate/jsonbody"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// choose finds the endpoint of a call that its JSON-RPC body chooses. Without a key, the
// body is read if one of the endpoints of the route is for such calls: it must be this
// one.
func (g *Gate) choose(r *http.Request, d *decision) *refusal.Refusal {
	if !g.foresees { // otherwise there is no body
		if f := g.readOperation(r, d); f != nil {
			return f
		}
	}
	if d.call.credential.IsAnonymous() && !g.Policy.Anonymous.Plan.Lists(d.Endpoint) {
		return g.credentials.NoToken
	}
	return nil
}

// readOperation reads the body. As in readCost, the call begins when it has arrived.
func (g *Gate) readOperation(r *http.Request, d *decision) *refusal.Refusal {
	var chosen *policy.Endpoint
	var requests []jsonbody.Request
	body, fault := readJSON(r, "this path", policy.MaxRPCBody)
	if fault == nil {
		var err error
		if requests, err = jsonbody.Requests(body); err != nil {
			fault = refusal.RPCBody(jsonbody.MaxNesting)
		} else {
			chosen, fault = chooseFor(requests, d.Operations)
		}
	}
	if f := d.call.renew(false); f != nil {
		return f
	}
	if fault != nil {
		return fault
	}
	d.Endpoint, d.mark.requests = chosen, int64(len(requests))
	d.call.entitlement = &g.entitlements[len(g.Policy.Plans)][d.Endpoint.Index]
	return nil
}

// chooseFor returns the endpoint of the requests of a body.
func chooseFor(requests []jsonbody.Request, from *policy.Operations) (chosen *policy.Endpoint, fault *refusal.Refusal) {
	for i := range requests {
		e := from.Choose(requests[i].Method, requests[i].Tool)
		if i > 0 && e != chosen {
			return nil, refusal.MixedBatch
		}
		chosen = e
	}
	if chosen == nil {
		return nil, refusal.MethodNotFound(requests[0].ID)
	}
	return chosen, nil
}
