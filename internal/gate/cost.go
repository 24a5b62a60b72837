package gate

import (
	"io"
	"net/http"
	"slices"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate/jsonbody"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/gate/tell"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// readCost finds the cost of the call in its body. It reads the body only if
// each limit has room for at least 1. Then the call begins now, and token,
// address and plan are checked again: a client can send a body as slowly as it
// likes. Without this, it could save up calls of a pace and make them at once,
// or with a revoked key.
func (c *Call) readCost() *refusal.Refusal {
	c.cost = 1
	if err := c.readRooms(); err != nil {
		return c.gate.storeFailed(err, c.credential.IsIdentity(), c.logAttrs()...)
	}
	if slices.ContainsFunc(c.rooms, func(room store.Room) bool { return room.Remaining < c.cost }) {
		if f := c.exceeded(); f != nil {
			return f
		}
	}
	cost, fault := c.gate.bodyCost(c.request, c.endpoint)
	f := c.renew(false)
	if f == nil {
		f = c.checkAddress()
	}
	if f == nil {
		f = c.entitle()
	}
	if fault != nil && !c.unconfirmed {
		return fault
	}
	c.cost = cost
	return f
}

// bodyCost finds in the body of a request what the call costs or reserves, and
// restores the body.
func bodyCost(r *http.Request, e *policy.Endpoint) (int64, *refusal.Refusal) {
	body, f := readJSON(r, e.Name, e.CostBody)
	if f != nil {
		return 0, f
	}
	if e.CostMember != "" {
		cost, err := jsonbody.Elements(body, e.CostMember)
		if err != nil {
			return 0, refusal.CostBody(e.CostMember, jsonbody.MaxNesting)
		}
		return max(1, cost), nil
	}
	most, err := jsonbody.Bound(body, e.Answer.Bound, e.Cost)
	if err != nil {
		return 0, refusal.BoundBody(e.Answer.Bound, jsonbody.MaxNesting)
	}
	return tell.Reservation(most, e.Answer.Scale), nil
}

// readJSON reads a JSON body of at most size bytes of a request to a named
// endpoint, and restores the body.
func readJSON(r *http.Request, name string, size int64) ([]byte, *refusal.Refusal) {
	if !apierror.IsJSON(r.Header) {
		return nil, refusal.CostType
	}
	if r.ContentLength > size {
		return nil, refusal.CostBodySize(name, size)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, size+1))
	if err != nil {
		request.Unread(r, body, err)
		return nil, request.BodyFault(err)
	}
	if int64(len(body)) > size {
		request.Unread(r, body, nil)
		return nil, refusal.CostBodySize(name, size)
	}
	request.SetBody(r, body)
	return body, nil
}
