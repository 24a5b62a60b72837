package gate

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/internal/gate/jsonbody"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// choose reads a JSON-RPC body and finds the endpoint of the call. Without a valid
// token, the gate reads it only if one of the endpoints is for calls without a key.
// As in readCost, the call begins when the body has arrived.
func (g *Gate) choose(r *http.Request, d *decision) *refusal.Refusal {
	ofPlan := func() *refusal.Refusal {
		if d.call.credential.IsAnonymous() && !g.Policy.Anonymous.Plan.Lists(d.Endpoint) {
			return g.credentials.NoToken
		}
		return nil
	}
	if g.foresees {
		return ofPlan()
	}
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
	return ofPlan()
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
