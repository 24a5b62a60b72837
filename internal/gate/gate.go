// Package gate checks requests: which account calls, may it, has it calls
// left. It needs net/http and no Caddy.
//
// This file is the way of one request, from top to bottom. Each step gives the
// next one what it needs, or a refusal.
//
//	request     reads the headers, and makes the request for the service
//	credential  who calls
//	answer      completes the headers of answers
//	refusal     what the gate answers itself
package gate

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/gate/answer"
	"github.com/caddy-tollgate/tollgate/internal/gate/credential"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/route"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// decision is what the gate finds out about a request. An open path has the
// zero Route and no refusal.
type decision struct {
	policy.Route
	route.Target
	mark  *Mark
	facts request.Facts
	began time.Time
	// call is nil if the request has no valid token and no identity.
	call *Call
	// account is that of a token that is not valid any more, if the store
	// knows it.
	account string
	// refusal is nil if the request passes.
	refusal *refusal.Refusal
	// final tells that mode shadow refuses the request too.
	final bool
	// unread tells that a fault of the request hides its credential.
	unread bool
}

// Serve takes a request through the gate once: where the gate is twice in
// a chain of handlers, the second one passes all requests that the first
// one has passed, also after a rewrite.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, next Handler) error {
	mark := g.Server.Mark(r)
	if mark.Call() != nil {
		return next.ServeHTTP(w, r)
	}
	began := g.Now()
	d := g.route(r, mark.Target)
	d.mark, d.began = mark, began
	if g.Policy.CORS != nil {
		c, answered := g.shareAnswer(w, r, &d)
		if answered {
			return nil
		}
		if c != nil {
			defer c.Begin(0) // the server answers if no handler has
			w = c
		}
	}
	d.facts = request.Read(r, d.Route)
	if d.refusal == nil && d.Endpoint != nil {
		g.decide(r, &d)
		g.Server.Decided(g.Since(began))
		if mark.leave != nil {
			running := g.newEnding(w, mark)
			defer running.end() // also if the service breaks off its answer
			w = running
		}
	}
	return g.carryOut(w, r, &d, next)
}

// route checks the target of a request, as the client wrote it and as it is
// now, and finds its route. A handler in front of the gate can rewrite the path,
// and the service can read both spellings. If one of them is closed, the request
// needs a route.
func (g *Gate) route(r *http.Request, written string) (d decision) {
	method := request.Method(r)
	var found bool
	var err error
	if d.Target, err = g.Policy.Guard.CheckTarget(method, written, r.URL); err == nil {
		d.Route, found, err = g.Policy.Routes.Find(method, &d.Target)
	}
	switch {
	case errors.Is(err, route.ErrBadMethod):
		d.refusal, d.final = refusal.MethodNotAllowed(cmp.Or(g.Policy.Routes.Allow(&d.Target), anyMethod)), true
	case err != nil, d.Login && d.Closed && d.Special != "":
		d.Route, d.refusal, d.final = policy.Route{}, refusal.BadPath, true
	case found:
		if d.Operations != nil {
			d.Endpoint = d.Operations.First() // until the body chooses
		}
		if d.Login && r.Method == http.MethodConnect {
			d.refusal, d.final = refusal.Upgrade, true
		} else if r.URL.RawQuery != "" && credential.OverridesMethod(r.URL.RawQuery) {
			d.refusal, d.unread = refusal.OtherMethod, d.Endpoint != nil
		}
	case d.Closed:
		d.refusal = g.notFound
		if allow := g.Policy.Routes.Allow(&d.Target); allow != "" {
			d.refusal = refusal.MethodNotAllowed(allow)
		}
	case g.isLoginAlias(r, &d):
		d.refusal, d.final = g.notFound, true
		g.Logger.Debug("refusing a path that a lenient server could serve as a login", zap.String("method", method), zap.String("path", d.Path))
	}
	return d
}

// anyMethod is the Allow header of a path that is no route.
const anyMethod = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// decide finds out who calls an endpoint, and whether the call is admitted. If
// it is, it is counted.
func (g *Gate) decide(r *http.Request, d *decision) {
	d.mark.requests = 0 // of an earlier pass of the request
	by, fault := g.credentials.Read(credential.Request{Request: r, Route: d.Route, Facts: d.facts})
	if fault != nil {
		d.refusal, d.unread = fault, true
		return
	}
	g.decideOn(r, d, by)
}

// decideOn is decide for a credential.
func (g *Gate) decideOn(r *http.Request, d *decision, by credential.Credential) {
	g.identify(r, d, by)
	if d.refusal == nil && d.Operations != nil {
		d.refusal = g.choose(r, d)
	}
	if d.refusal == nil {
		d.refusal = d.call.admit()
	}
	if d.refusal == nil {
		g.outages.store.Worked()
		g.Server.Count(d.Endpoint, outcome.Admitted)
	}
}

// maxDecisions is how often a call is decided again because the account
// changes at the same time.
const maxDecisions = 20

// steps decide about a call. Each one may refuse it; the last one counts it.
var steps = [...]func(*Call) *refusal.Refusal{(*Call).checkAddress, (*Call).entitle, (*Call).price, (*Call).take}

// admit runs the steps. If the grant was out of date, or a cached grant would
// refuse the call, it reads the grant again and repeats them.
func (c *Call) admit() *refusal.Refusal {
	for n := 1; ; n++ {
		var f *refusal.Refusal
		for i := 0; i < len(steps) && f == nil; i++ {
			f = steps[i](c)
		}
		outdated := f == refusal.Changed || f != nil && c.grant.Cached && f.Status == http.StatusForbidden
		if !outdated || n == maxDecisions {
			return f
		}
		if f = c.renew(true); f != nil {
			return f
		}
	}
}

// entitle checks the account's current plan and the abilities of the token,
// and finds the limits of the call: those of the plan with the overrides of the
// account, then those of the key.
func (c *Call) entitle() (f *refusal.Refusal) {
	if c.grant.Terms.Lapsed(c.began) && !c.gate.foresees {
		if f = c.endTopUps(); f != nil {
			return f
		}
	}
	plan := c.gate.Policy.Plan(c.grant.Plan)
	if !plan.Lists(c.endpoint) {
		if plan.HasAccess() {
			return refusal.NotEntitled
		}
		return refusal.NoPlan
	}
	effective := plan.Effective(c.tokenAbilities(plan))
	if !effective.Includes(c.endpoint) {
		return refusal.Scope(c.endpoint.Ability)
	}
	c.entitlement, c.abilities = &c.gate.entitlements[plan.Index][c.endpoint.Index], effective.Abilities
	c.day = c.gate.Policy.Calendar.At(c.began)
	own := c.grant.Restriction
	if c.planOnly = c.grant.Terms.IsZero() && (own == nil || len(own.Limits) == 0); !c.planOnly {
		c.grant = c.gate.Policy.Names.Grant(c.grant)
		own = c.grant.Restriction
	}
	c.limits = plan.LimitsOf(c.endpoint, c.grant.Terms, c.began)
	if own != nil && len(own.Limits) > 0 {
		c.limits = slices.Clip(c.limits)
		for _, limit := range own.Limits {
			if c.endpoint.Covered(limit) {
				limit.OfKey = true
				c.limits = append(c.limits, limit)
			}
		}
	}
	c.addAddress()
	if atOnce := plan.AtOnce(c.endpoint); len(atOnce) > 0 && c.mark.taking == nil {
		c.limits = slices.Concat(c.limits, atOnce)
	}
	if n := c.mark.requests; n > 1 {
		c.limits = slices.Clone(c.limits)
		for i := range c.limits {
			c.limits[i].Requests = int32(n)
		}
	}
	if c.endpoint.Usage {
		c.history, f = usageDays(c.request)
	}
	return f
}

// price finds the cost of the call, and refuses one that costs more than a limit
// can ever admit. A limit of 0 refuses each call with 429 instead, whatever the
// call costs.
func (c *Call) price() *refusal.Refusal {
	c.cost = c.endpoint.Cost * max(1, c.mark.requests)
	if t := c.mark.taking; t != nil {
		c.cost = cmp.Or(t.Cost, c.cost)
	} else if c.endpoint.ReadsBody() {
		if f := c.readCost(); f != nil {
			return f
		}
	}
	for _, limit := range c.limits {
		// A top-up can raise a total.
		if limit.Max > 0 && limit.Max < limit.Weight(c.cost) && limit.Period != store.Total {
			return refusal.CostAbove(limit, c.gate.Policy.UnitOf(c.endpoint, &limit), c.endpoint.Takes(limit), limit.Weight(c.cost))
		}
	}
	return nil
}

// take takes the cost of the call from all limits in one step. It does so again if
// calls in progress have given room back since the store refused.
func (c *Call) take() *refusal.Refusal {
	call, rooms := c.storeCall(), c.newRooms()
	c.addReceipt(&call)
	admitted, err := c.takeAll(call, rooms)
	if err != nil {
		// Nothing is given back: the call may not be counted.
		c.rooms = nil
		c.forgetReservation()
		return c.gate.storeFailed(err, c.credential.IsIdentity(), c.logAttrs()...)
	}
	c.rooms = rooms
	if !admitted {
		if f := c.exceeded(); f != nil {
			return f
		}
		return c.take()
	}
	c.counted = true
	if c.endpoint.Answer == nil && c.hasEvents() { // otherwise when it is settled
		c.warn(rooms, c.held(rooms, nil), 0)
	}
	return nil
}

// carryOut refuses a request or passes it on, as it was decided. Here, and
// nowhere else, the mode shadow makes a difference.
func (g *Gate) carryOut(w http.ResponseWriter, r *http.Request, d *decision, next Handler) error {
	enforced := g.enforces(d.Endpoint)
	if d.refusal != nil {
		g.logRewritten(r, d)
		if enforced || !g.passRefused(r, d) {
			if d.call != nil {
				d.account, d.mark.refusal = d.call.grant.Account, d.refusal
				d.call.recordRefusal(d.refusal)
			}
			return g.refuse(w, r, d.account, d.Endpoint, d.refusal)
		}
	}
	switch {
	case d.call != nil && (enforced || !d.call.credential.IsAnonymous()):
		return d.call.proxy(w, d.facts, next)
	case d.Login:
		return g.login(w, r, d, next)
	case enforced:
		return g.pass(w, r, d.facts, openAnswer{w}, next)
	}
	if d.call != nil { // the service may know who calls: the request and the answer stay as they are
		d.call.settleByEnd(false)
	}
	d.facts.KeepConnection()
	return g.pass(w, r, d.facts, nil, next)
}

// proxy passes a call on, and records it when it ends.
func (c *Call) proxy(w http.ResponseWriter, facts request.Facts, next Handler) (err error) {
	c.mark.requestID = c.gate.Server.RequestID(c.request, true)
	c.answer = answer.Writer{ResponseWriter: w, Owner: c, AnswersBroken: true}
	// Deferred, because a proxy panics if its service breaks off in the
	// middle of an answer. Before the answer, a panic is a server error.
	status, panics := http.StatusInternalServerError, true
	defer func() {
		if panics && !c.answer.ClientGone(c.request) && c.request.Context().Err() == nil {
			logFailure(c.gate.outages.upstream[c.endpoint.Index], errBrokenOff, c.logAttrs()[1:]...)
		}
		c.answer.Begin(status)
		c.settleByEnd(!panics && err == nil && c.request.Context().Err() == nil)
		c.answer.End(status)
		if err != nil {
			c.gate.removeSecrets(c.request)
		}
		if !c.switched {
			c.record(c.answer.Status, "")
		}
	}()
	if c.endpoint.Usage {
		panics = false
		return c.serveUsage(&c.answer, c.request)
	}
	c.forward(facts)
	err = next.ServeHTTP(&c.answer, c.request)
	panics = false
	c.mark.call.Store(nil) // for the handlers in front of the gate, the call is over
	c.answer.Passage.End(true)
	if c.answer.ClientGone(c.request) {
		return nil
	}
	if c.answer.Status == 0 && (err != nil || c.answer.Passage.Body.Fault() != nil) {
		return c.fail(err)
	}
	status = http.StatusOK // as net/http, for a handler that wrote nothing
	c.gate.outages.upstream[c.endpoint.Index].Worked()
	return err
}

// forward gives the request the headers that tell which account calls, and
// removes those that the service must not see.
func (c *Call) forward(facts request.Facts) {
	c.answer.Passage.Begin(c.request, facts, c.gate.credentials.Headers)
	h := c.request.Header
	// Removed first: a map of up to eight fields is small.
	c.gate.credentials.Remove(h, c.endpoint)
	if c.gate.tellers[c.endpoint.Index] != nil {
		c.values.Set(h, request.AcceptEncoding, "identity")
	}
	by := assertion.Caller{Account: c.grant.Account, Plan: c.grant.Plan, Key: c.grant.Key, Abilities: c.abilities}
	c.values.Set(h, "Tollgate-Account", by.Account)
	c.values.Set(h, "Tollgate-Plan", by.Plan)
	if by.Key != "" {
		c.values.Set(h, "Tollgate-Key", by.Key)
	}
	c.values.Set(h, "Tollgate-Abilities", by.Abilities)
	c.values.Set(h, assertion.Header, c.gate.Assertions.Call(c.credential.Hash, c.request.Host, by, c.began))
	c.mark.call.Store(c)
}

// Answered implements answer.Owner: it completes the headers of the answer.
func (c *Call) Answered(status int) {
	c.settleByStatus(status)
	h := c.answer.Header()
	c.settleByHeader(h)
	vary := c.gate.vary
	if c.credential.User != "" {
		// The gate does not know which header has authenticated the user. A
		// cache that takes Vary: Authorization for a permission to store
		// private answers would send the answer to requests without it.
		vary = "*"
	}
	answer.KeepPrivate(h, vary, &c.values)
	// New fields come last: a Go map of eight entries grows at any write, also
	// to an entry that it has.
	if len(c.limits) > 0 && c.rooms != nil { // a call that shadow passes may have no rooms
		c.values.Set(h, "Ratelimit-Policy", c.rateLimitPolicy())
		c.values.Set(h, "Ratelimit", c.rateLimit())
	}
	c.switched = status == http.StatusSwitchingProtocols || status == http.StatusOK && c.request.Method == http.MethodConnect
	if c.switched {
		credential.AnswerProtocol(h, c.answer.Passage.Sent(request.ProtocolHeader))
		c.record(status, "") // the connection may stay open for days
	}
}

// fail answers for a service that did not answer. An error that the gate has no
// refusal for goes on to the server.
//
