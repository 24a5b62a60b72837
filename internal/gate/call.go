package gate

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/gate/answer"
	"github.com/caddy-tollgate/tollgate/internal/gate/credential"
	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Call is one request to an endpoint from a known account. It has the
// memory of the headers that the gate sets, so that a request allocates
// little else. Servers may read it after the request, so calls are not
// reused.
type Call struct {
	*entitlement // without a plan until the call is entitled
	gate         *Gate
	answer       answer.Writer
	credential   credential.Credential
	grant        store.Grant
	store        Store
	mark         *Mark
	request      *http.Request
	began        time.Time
	path         string // as asked for: handlers behind the gate may rewrite it

	// Set by entitle.
	abilities string // those that token and plan have in common
	day       *calendar.Span
	limits    []store.Limit

	cost int64
	// rooms has the room of each limit. It is nil until the store returned it.
	rooms      []store.Room
	roomMemory [4]store.Room // of rooms, if there are at most 4

	planOnly    bool  // set by entitle: all limits are those of the plan
	counted     bool  // the store has counted the cost: false after a refund
	history     int16 // set by entitle: days of history that a call to usage asks for
	settled     bool  // the cost is final: by a refund, or by what the answer says
	switched    bool  // the service has switched protocols
	unanswered  bool  // the handler behind the gate has returned an error
	failed      bool  // it has answered 4xx or 5xx, and the client was there
	uncounted   bool  // mode shadow passes a call that enforce refuses
	unconfirmed bool  // the grant could not be read again

	values   header.Values // of the headers that the gate sets
	restText [32]byte      // the memory of the RateLimit field, if it fits
}

// Mark tells whether the gate has passed a request. It is safe for concurrent
// use: a proxy that dials in the background may read it after the answer.
type Mark struct {
	// Target is the request target as the client wrote it.
	Target string
	// Client is the IP address of the client, by the server's rules about
	// trusted proxies.
	Client string

	call atomic.Pointer[Call]
	// requestID is the id of the request, or "" if nothing shows it. It does
	// not change once the next handler has the request.
	requestID string
	// refusal is the last one of the call, also one that mode shadow passes.
	// The call has no room for it: see TestMemoryOfCall.
	refusal *refusal.Refusal
	// reservation is that of the call until it is settled, or nil.
	reservation *reservation
	// requests is how many requests a JSON-RPC body has, 0 for any other body.
	requests int64
	// address has the limits of the address, or is nil.
	address *login.AddressCall
	// leave ends a call that runs, for limits of calls at once, or is nil.
	leave func()
	// taking is the call of a program, or nil for a request.
	taking *Taking
}

// Call returns the call that the gate has passed, or nil if it has not, or if
// the call is over. A login has a call without an account.
func (m *Mark) Call() *Call { return m.call.Load() }

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
		return c.credential.User, true
	case "http.tollgate.limit", "http.tollgate.remaining":
		return c.lookupLimit(name == "http.tollgate.remaining"), true
	case "http.tollgate.call":
		return c.logged(), true
	}
	return nil, false
}

// Logged is what an access log shows of a call. The costs of the calls of an
// account on a day add up to its usage of that day.
type Logged struct {
	Account  string       `json:"account"`
	Key      string       `json:"key"`
	Endpoint string       `json:"endpoint"`
	Day      calendar.Day `json:"day"`
	// Cost is 0 if the call is refused or refunded.
	Cost int64 `json:"cost"`
	// Code is that of the refusal, empty for an answer of the service.
	Code string `json:"code"`
}

// costCounted returns what the call counts: 0 if it is refused or refunded.
func (c *Call) costCounted() int64 {
	if c.counted {
		return c.cost
	}
	return 0
}

func (c *Call) logged() Logged {
	l := Logged{
		Account: c.grant.Account, Key: c.grant.Key, Endpoint: c.endpoint.Name, Day: c.gate.Policy.Calendar.At(c.began).Day, Cost: c.costCounted(),
	}
	if f := c.mark.refusal; f != nil {
		l.Code = f.Code
	}
	return l
}

// lookupLimit returns the number or the remaining calls of one limit, as far as
// they are known: the account's limit of the endpoint for the day, or the first
// limit if there is none.
func (c *Call) lookupLimit(remaining bool) any {
	switch {
	case c.plan == nil || remaining && c.rooms == nil:
		return ""
	case len(c.limits) == 0:
		return "unlimited"
	}
	i := max(0, slices.IndexFunc(c.limits, func(l store.Limit) bool {
		return l.Period == store.Day && l.Endpoint == c.endpoint.Name && !l.OfKey && !l.Calls
	}))
	if remaining {
		return c.limits[i].Left(&c.rooms[i])
	}
	return c.limits[i].Number()
}

// tokenAbilities returns the abilities of the token. An identity has those of
// its plan.
func (c *Call) tokenAbilities(plan *policy.Plan) string {
	if c.credential.IsIdentity() {
		return plan.All
	}
	return c.grant.Abilities
}

// from returns the address of the client, or an invalid one if it is not
// known.
func (c *Call) from() netip.Addr {
	address, err := netip.ParseAddr(c.mark.Client)
	if err != nil {
		return netip.Addr{} // such as of a Unix socket
	}
	return address.Unmap().WithZone("")
}

// logAttrs returns the endpoint, the account and the key of the call for a log.
func (c *Call) logAttrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("endpoint", c.endpoint.Name), slog.String("account", c.grant.Account)}
	if c.grant.Key != "" {
		attrs = append(attrs, slog.String("key", c.grant.Key))
	}
	return attrs
}

// isRefusedBehind tells whether a handler behind the gate, such as a rate limit
// or a firewall, has refused the call before a service saw it. A 404 can be the
// answer of a handler that is the service, such as a file server, and a 401 can
// be a wrong password.
func (c *Call) isRefusedBehind(status int) bool {
	return (status == http.StatusForbidden || status == http.StatusTooManyRequests) && !c.gate.Server.Proxied(c.request)
}

// recordRefusal records a call that the gate refuses, so that the account sees
// why. It does not record a token that is not valid, nor a failure of the
// gate.
func (c *Call) recordRefusal(f *refusal.Refusal) {
	if f.Status != http.StatusUnauthorized && f.Status < http.StatusInternalServerError {
		c.mark.requestID = c.gate.Server.RequestID(c.request, false)
		c.record(f.Status, f.Code)
	}
}

// record adds the call to the account's recent calls. code is why the gate
// refused it, empty for an admitted call.
func (c *Call) record(status int, code string) {
	method := "" // of a call that a program takes
	if c.mark.taking == nil {
		method = request.Method(c.request)
	}
	c.store.Record(store.Record{
		Account: c.grant.Account, Key: c.grant.Key, KeyName: c.grant.KeyName, At: c.began,
		Endpoint: c.endpoint.Name, Method: method, Path: c.path, RequestID: c.mark.requestID,
		Status: status, Code: code, Cost: c.costCounted(), Duration: c.gate.Since(c.began), From: c.from(), Handle: c.grant.Handle,
	})
}
