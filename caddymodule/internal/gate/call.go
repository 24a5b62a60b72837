package gate

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Call is one request to an endpoint from a known account. It has the
// memory of the headers that the gate sets, so that a request allocates
// little else. Servers may read it after the request, so calls are not
// reused.
type Call struct {
	*entitlement // without a plan until the call is entitled
	answer       answer
	credential   credential
	grant        store.Grant
	store        Store
	request      *http.Request
	forwarded    http.Request // for the handlers behind the gate
	began        time.Time
	path         string // as asked for: handlers behind the gate may rewrite it

	// Set by entitle.
	effective *policy.Effective
	day       *calendar.Span
	limits    []store.Limit

	cost int64
	// rooms has the room of each limit. It is nil until the store returned it.
	rooms []store.Room
	few   [4]store.Room // the memory of rooms, if there are at most 4

	history  int16 // days of history that a call to usage asks for
	head     bool  // a HEAD request to an endpoint with GET
	refunded bool
	shared   bool // limits are those of the plan only
	protocol bool // the client offers gateProtocol
	switched bool // the service has switched protocols

	// shadow tells that the mode is shadow, and that the call is not to the
	// gate's own endpoint.
	shadow    bool
	uncounted bool // shadow passes a call that enforce refuses
	unsure    bool // the grant could not be renewed

	values [9]string // of the headers that the gate sets
	text   [32]byte  // the memory of the RateLimit field, if it fits
}

// The positions of headers in Call.values.
const (
	atAccount = iota
	atPlan
	atKey
	atAbilities
	atAssertion
	atQuotaPolicy
	atRateLimit
	atCacheControl
	atVary
)

// header sets a header to a value in the call's own memory: servers have
// handlers that change the values of headers in place.
func (c *Call) header(h http.Header, name string, at int, value string) {
	c.values[at] = value
	h[name] = c.values[at : at+1 : at+1]
}

// identityPlaceholder has the user of an identity, or "" of a call with a
// token. Servers read it for the second pass of a request: by then,
// http.auth.user.id is what the first pass has set.
const identityPlaceholder = "http.tollgate.identity"

// Lookup returns the value of one of the gate's placeholders.
func (c *Call) Lookup(name string) (any, bool) {
	switch name {
	case "http.auth.user.id":
		return c.grant.Account, true
	case "http.tollgate.endpoint":
		return c.endpoint.Name, true
	case "http.tollgate.plan":
		return c.grant.Plan, true
	case "http.tollgate.key":
		return c.grant.Key, true
	case identityPlaceholder:
		return c.credential.user, true
	case "http.tollgate.limit", "http.tollgate.remaining":
		return c.lookupLimit(name == "http.tollgate.remaining"), true
	}
	return nil, false
}

// maxDecisions is how often a call is decided again because the account
// changes at the same time.
const maxDecisions = 20

// decide checks what the call may do, and takes its cost from all limits. If
// the grant was out of date, or a call is refused because of a cached grant,
// it reads the grant again and decides again. A fault of the request, if it is
// not nil, refuses the call before that.
func (c *Call) decide(fault *Refusal) *Refusal {
	if fault != nil {
		return c.confirm(fault)
	}
	refusal := c.decideOnce()
	for n := 1; n < maxDecisions && c.isOutdated(refusal); n++ {
		if refusal = c.renew(true); refusal == nil {
			refusal = c.decideOnce()
		}
	}
	return c.confirm(refusal)
}

func (c *Call) decideOnce() *Refusal {
	refusal := c.checkAddress()
	if refusal == nil {
		refusal = c.entitle(c.request)
	}
	if refusal == nil {
		refusal = c.price()
	}
	if refusal == nil {
		refusal = c.take()
	}
	return refusal
}

// isOutdated tells whether another grant could lead to another decision.
func (c *Call) isOutdated(refusal *Refusal) bool {
	return refusal == refuseChanged || refusal != nil && c.grant.Cached && refusal.Status == http.StatusForbidden
}

// entitle looks up the limits of the endpoint on the account's current
// plan, and checks the token's abilities.
func (c *Call) entitle(r *http.Request) (refusal *Refusal) {
	plan := c.gate.Policy.Plan(c.grant.Plan)
	if !plan.HasAccess() {
		return refusePlan
	}
	if !plan.Lists(c.endpoint) {
		return refuseEntitlement
	}
	effective := plan.Effective(c.held(plan))
	if !effective.Includes(c.endpoint) {
		return insufficientScope(c.endpoint)
	}
	c.entitlement, c.effective = &c.gate.entitlements[plan.Index][c.endpoint.Index], effective
	c.setLimits()
	if c.endpoint.Usage {
		c.history, refusal = usageDays(r)
	}
	return refusal
}

// held returns the abilities of the token. An identity has those of its plan.
func (c *Call) held(plan *policy.Plan) string {
	if c.credential.isIdentity() {
		return plan.All
	}
	return c.grant.Abilities
}

// checkAddress refuses a client whose address the key does not allow.
func (c *Call) checkAddress() *Refusal {
	if own := c.grant.Restriction; own == nil || len(own.Addresses) == 0 {
		return nil
	}
	return c.checkFrom(c.from())
}

// checkFrom refuses an address that the networks of the key do not include.
func (c *Call) checkFrom(from netip.Addr) *Refusal {
	own := c.grant.Restriction
	if !slices.ContainsFunc(own.Addresses, func(network netip.Prefix) bool { return network.Contains(from) }) {
		return addressNotAllowed(from)
	}
	return nil
}

// from returns the address of the client, or an invalid one if it is not
// known.
func (c *Call) from() netip.Addr {
	address, err := netip.ParseAddr(c.gate.Server.Client(c.request))
	if err != nil {
		return netip.Addr{} // such as of a Unix socket
	}
	return address.Unmap().WithZone("")
}

// proxy passes an admitted call on, and records it when it ends.
func (c *Call) proxy(w http.ResponseWriter, held headers, next Handler) (err error) {
	c.answer.start(w, c, nil)
	// Deferred, because a proxy panics if its upstream breaks off in the
	// middle of an answer. Before the answer, a panic is a server error.
	otherwise, panics := http.StatusInternalServerError, true
	defer func() {
		if panics && c.request.Context().Err() == nil {
			failed(c.gate.outages.upstream[c.endpoint.Index], errBrokenOff, c.whose()[1:]...)
		}
		c.answer.end(otherwise)
		if err != nil {
			c.gate.removeSecrets(c.request)
		}
		if !c.switched {
			c.record(c.answer.status, "")
		}
	}()
	if c.endpoint.Usage {
		panics = false
		return c.serveUsage(&c.answer, c.request)
	}
	c.prepare(held)
	err = next.ServeHTTP(&c.answer, &c.forwarded)
	panics = false
	c.gate.Server.Mark(c.request, nil) // for the handlers in front of the gate, the call is over
	if err != nil || c.answer.body.fault() != nil {
		c.gate.unmark(&c.forwarded)
		if c.answer.status == 0 {
			return c.fail(err)
		}
	}
	otherwise = http.StatusOK // as net/http, for a handler that wrote nothing
	if c.answer.status != statusClientGone {
		c.gate.outages.upstream[c.endpoint.Index].Worked()
	}
	return err
}

// fail answers for an upstream that did not answer. An error that the gate
// has no refusal for goes on to the server.
//
// A call whose body is broken or too long stays counted: the upstream may
// have worked for it, and a client could repeat it without limit.
func (c *Call) fail(err error) error {
	if fault := c.gate.fault(c.answer.body, err); fault != nil {
		c.answer.begin(fault.Status)
		return c.refuse(&c.answer, fault)
	}
	status := c.gate.Server.Status(err)
	c.refundIfFailed(status, false)
	refusal := unanswered(status)
	if refusal != nil {
		failed(c.gate.outages.upstream[c.endpoint.Index], unquoted(err), append(c.whose()[1:], slog.Int("status", status))...)
		if !c.gate.PassErrors {
			return c.refuse(&c.answer, refusal)
		}
	}
	c.answer.begin(status)
	return err
}

// refuse refuses a call that was passed to the next handler. A call that
// shadow passes is reported already.
func (c *Call) refuse(w http.ResponseWriter, f *Refusal) error {
	if c.uncounted && f.outcome != Failed {
		return c.gate.write(w, c.request, c.endpoint, f)
	}
	return c.gate.refuse(w, c.request, c.grant.Account, c.endpoint, f)
}

// prepare makes the request for the service: with the headers that tell which
// account calls, and without those that the service must not see.
func (c *Call) prepare(held headers) {
	held.forward(&c.forwarded, c.request)
	h := c.forwarded.Header
	c.removeCredentials(h, held)
	by := assertion.Caller{Account: c.grant.Account, Plan: c.grant.Plan, Key: c.grant.Key, Abilities: c.abilities()}
	c.header(h, "Tollgate-Account", atAccount, by.Account)
	c.header(h, "Tollgate-Plan", atPlan, by.Plan)
	if by.Key != "" {
		c.header(h, "Tollgate-Key", atKey, by.Key)
	}
	c.header(h, "Tollgate-Abilities", atAbilities, by.Abilities)
	c.header(h, assertion.Header, atAssertion, c.gate.Assertions.Call(c.credential.hash, c.request.Host, by, c.began))
	c.gate.Server.Mark(c.request, c)
	c.answer.body = watchBody(&c.forwarded, c.request)
}

// abilities returns those that token and plan have in common. In mode shadow,
// a call may have been refused before they were found.
func (c *Call) abilities() string {
	if c.effective == nil {
		plan := c.gate.Policy.Plan(c.grant.Plan)
		if !plan.HasAccess() {
			return ""
		}
		c.effective = plan.Effective(c.held(plan))
	}
	return c.effective.Abilities
}

// statusClientGone is the status of Caddy's proxy if the client has closed
// the connection. It says nothing about the upstream.
const statusClientGone = 499

// begun implements owner: it refunds a failed call and completes the
// headers of the answer.
func (c *Call) begun(status int) {
	c.refundIfFailed(status, true)
	c.complete(c.answer.Header())
	c.switched = status == http.StatusSwitchingProtocols || status == http.StatusOK && isExtendedConnect(c.request)
	if c.switched {
		c.answerProtocol(c.answer.Header())
		c.record(status, "") // the connection may stay open for days
	}
}

// refundIfFailed gives the call back if the option refund says so. A call
// whose client is gone (499) is not given back: the upstream has worked for
// it.
func (c *Call) refundIfFailed(status int, answered bool) {
	switch c.gate.Policy.Refund {
	case policy.RefundUnreachable:
		if !answered && (unanswered(status) != nil || c.isRefusedBehind(status)) {
			c.refund()
		}
	case policy.RefundServerErrors:
		if status >= 500 || !answered && c.isRefusedBehind(status) {
			c.refund()
		}
	}
}

// isRefusedBehind tells whether a handler behind the gate, such as a rate limit
// or a firewall, has refused the call before a service saw it. A 404 can be the
// answer of a handler that is the service, such as a file server, and a 401 can
// be a wrong password.
func (c *Call) isRefusedBehind(status int) bool {
	switch status {
	case http.StatusForbidden, http.StatusTooManyRequests:
		return !c.gate.Server.Proxied(c.request)
	}
	return false
}

// recordRefusal records a call that the gate refuses, so that the account sees
// why. It does not record a token that is not valid, nor a failure of the
// gate.
func (c *Call) recordRefusal(f *Refusal) {
	if f.Status != http.StatusUnauthorized && f.Status < http.StatusInternalServerError {
		c.record(f.Status, f.Code)
	}
}

// record adds the call to the account's recent calls. code is why the gate
// refused it, empty for an admitted call.
func (c *Call) record(status int, code string) {
	method := c.endpoint.Method
	if c.head {
		method = http.MethodHead
	}
	c.store.Record(store.Record{
		Account: c.grant.Account, Key: c.grant.Key, KeyName: c.grant.KeyName, At: c.began,
		Endpoint: c.endpoint.Name, Method: method, Path: c.path,
		Status: status, Code: code, Duration: c.gate.Since(c.began), From: c.from(), Handle: c.grant.Handle,
	})
}
