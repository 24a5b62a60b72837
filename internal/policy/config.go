// Package policy compiles the operator's configuration: the endpoints, the
// limits of each plan, and the zone whose midnight resets the counts.
//
// A Config is the written form of a Caddyfile or of the JSON configuration.
// New checks it as a whole and compiles it into an immutable Policy; a
// reload makes another one. Policies have no counts and no accounts; those
// are in the store.
package policy

import (
	"errors"
	"fmt"

	"github.com/caddy-tollgate/tollgate/internal/contract"
)

// MaxLimit is the largest limit.
const MaxLimit = contract.MaxLimit

// The costs of a call.
const (
	// MaxCost is the largest Cost of an endpoint.
	MaxCost = 10_000
	// DefaultCostBody is the default of CostBody.
	DefaultCostBody = 64 << 10
	// MaxRPCBody is the maximum size of a body that chooses an endpoint, in
	// bytes: see EndpointConfig.JSONRPC.
	MaxRPCBody = 1 << 20
	// MaxCostBody is the largest CostBody: the body is held in memory.
	MaxCostBody = 16 << 20
)

// Config is the part of the configuration that is independent of Caddy. Its
// zero value closes all paths and admits no call.
type Config struct {
	// Timezone is the IANA name of the zone whose midnight resets the
	// daily counts, for example "Europe/Berlin". Default "UTC". "Local"
	// is refused: the counts must not depend on the machine.
	Timezone string `json:"timezone,omitempty"`

	// Guard lists the path prefixes that are closed, without wildcards. Below
	// them only logins and endpoints exist; any other path gets 404. Case is
	// ignored. Outside them requests pass unauthenticated and uncounted.
	// Default: "/", everything is closed.
	Guard []string `json:"guard,omitempty"`

	// Logins lists the method and path of the requests that check a password,
	// for example "POST /api/login". They need no token, and share the limits of
	// attempts. With " strict" behind the path, as in "POST /signup strict", a
	// success counts like a failure: a client needs no password for it.
	Logins []string `json:"logins,omitempty"`

	// LoginThrottle limits login attempts. All logins share its limits.
	LoginThrottle LoginThrottle `json:"login_throttle,omitzero"`

	// LoginTTL is how long a login token lives. Default 24h.
	LoginTTL Duration `json:"login_ttl,omitempty"`

	// Usage is the method and path of the endpoint that returns an
	// account's usage, for example "GET /api/usage". The gate answers it
	// itself. Its name is "usage", and it is metered like the others.
	// Default: none.
	Usage string `json:"usage,omitempty"`

	// Endpoints lists the endpoints of the API behind the gate.
	Endpoints []EndpointConfig `json:"endpoints,omitempty"`

	// Plans lists the plans of accounts.
	Plans []PlanConfig `json:"plans,omitempty"`

	// Mode is what happens to calls that break a rule. "enforce" (the default)
	// refuses them. "shadow" lets them pass without counting them, and reports
	// what enforce would have refused. Path checks, logins, usage, revoked and
	// expired tokens and disabled accounts are enforced in both.
	Mode Mode `json:"mode,omitempty"`

	// Warn lists percentages of the limits of a day and a month, from 1 to
	// 100. When an account reaches one, there is an event
	// tollgate.quota_warning. Default: none.
	Warn []int `json:"warn,omitempty"`

	// CORS lets pages of other origins call the API from a browser. Default:
	// none may, and the service's own CORS headers go to clients unchanged.
	CORS *CORSConfig `json:"cors,omitempty"`

	// TokenPrefix is the word of new tokens, 2 to 24 of a-z, 0-9 and _. With
	// "acme_live", keys begin with acme_live_, and login tokens with
	// acme_live_login_. Tokens with older words go on to work. Default: tgk_ and
	// tgl_.
	TokenPrefix string `json:"token_prefix,omitempty"`

	// TokenHeader is a second header for tokens, for example "X-Api-Key". Its
	// value is the token alone. A request with a token in both is refused.
	// The service does not get the header. Caddy's logs show it, but
	// not in the format tollgate. Default: none.
	TokenHeader string `json:"token_header,omitempty"`

	// TokenBasic also takes the password of Basic authentication for a token, or
	// the user name if the password is no token. Default: off.
	TokenBasic bool `json:"token_basic,omitempty"`

	// ForeignKeys accepts tokens that the gate did not make: those that were
	// imported with caddy tollgate key import. Default: off.
	ForeignKeys bool `json:"foreign_keys,omitempty"`

	// Identity makes accounts of users that another handler in front of the
	// gate has authenticated. Default: none.
	Identity *IdentityConfig `json:"identity,omitempty"`

	// Anonymous admits calls without a key. Default: none.
	Anonymous *AnonymousConfig `json:"anonymous,omitempty"`

	// Docs is where the documentation of the API is: a URL, or a path of the
	// same site such as "/docs". A refusal of an unknown path or of calls
	// without a key, and the page without a key, link to it. Default: none.
	Docs string `json:"docs,omitempty"`

	// Refund decides which failed calls are refunded: "unreachable"
	// (the default) calls that no upstream answered, "server_errors" also
	// calls that an upstream answered with 5xx, "errors" also those with 4xx,
	// "never" none.
	Refund Refund `json:"refund,omitempty"`

	// Errors is how refusals are written. With "json" (the default) the gate
	// writes them: as JSON, as a page for browsers, and with a status for gRPC
	// clients. It also writes the errors 502, 503 and 504 of the handlers behind
	// it, for endpoints and logins. "openai" adds the member error to the JSON,
	// as clients of OpenAI's API read it. "pass" leaves all of these to
	// handle_errors.
	Errors Errors `json:"errors,omitempty"`
}

// EndpointConfig is one metered endpoint.
type EndpointConfig struct {
	// Name identifies the endpoint in plans, counts and answers. It is
	// also the ability that a token needs, unless the endpoint sets one.
	Name string `json:"name"`

	// Patterns lists the routes of the endpoint, at least one: a method and a
	// path pattern of Go's net/http.ServeMux, such as "GET /items/{id}" or "PUT
	// /files/{path...}". The method is a registered one, or "*" for all, but
	// never CONNECT or TRACE. GET includes HEAD.
	Patterns []string `json:"patterns"`

	// JSONRPC says which JSON-RPC requests to its routes the endpoint takes.
	// Default: none, it takes all that no other endpoint of the route takes.
	JSONRPC *JSONRPC `json:"jsonrpc,omitempty"`

	// Ability puts the endpoint into a group: a token needs the ability
	// of this name instead of the endpoint's name.
	Ability string `json:"ability,omitempty"`

	// Rename lists the names that the endpoint had before, the oldest first: it
	// goes on with their counts, limits and keys. An older name of a key's
	// ability counts as the name of today, unless Ability is set. Keep the
	// option: without it, counts and keys stay behind. Default: none.
	Rename []string `json:"rename,omitempty"`

	// Upgrade lets clients switch to another protocol, such as WebSocket, but
	// not to HTTP/2 or TLS. The handshake is one call; what is sent afterwards
	// is not counted. Default: off, such a request is refused with 400.
	Upgrade bool `json:"upgrade,omitempty"`

	// Keep lists headers that go on to the service: "Authorization", "Cookie" or
	// both, for services with sessions or tokens of their own. Default: none
	// goes on.
	Keep []string `json:"keep,omitempty"`

	// Cost is what a call counts in each limit, from 1 to 10,000. Default 1.
	// A call that costs more than the room of a limit is refused and counts
	// nothing.
	Cost int64 `json:"cost,omitempty"`

	// Unit is what the cost of calls counts, as a plural of 2 to 24 small letters
	// such as "tokens", for messages, pages and RateLimit headers. Default:
	// calls.
	Unit string `json:"unit,omitempty"`

	// Refund decides which failed calls of the endpoint are refunded, as the option
	// of the app. Default: that option.
	Refund Refund `json:"refund,omitempty"`

	// Errors is how refusals of the endpoint are written, as the option of the
	// app. Default: that option.
	Errors Errors `json:"errors,omitempty"`

	// CostAnswer lets the answer tell what a call costs. Default: none, the cost
	// is known before the call.
	CostAnswer *CostAnswerConfig `json:"cost_answer,omitempty"`

	// CostMember is the name of an array in the JSON object that is the body of
	// a POST, PUT or PATCH request. A call costs the number of its elements, at
	// least 1. A body that is not plain application/json gets 415. A body
	// without the array, or that parsers can read differently, gets 400.
	// Default: none, the cost is fixed.
	CostMember string `json:"cost_member,omitempty"`

	// CostBody is the maximum size of a body with a CostMember or a Bound, in bytes,
	// at most 16 MiB. A longer body gets 413. The gate holds the body in memory.
	// Default 65536 (64 KiB), or 1048576 (1 MiB) with a Bound.
	CostBody int64 `json:"cost_body,omitempty"`
}

// PlanConfig is one plan.
type PlanConfig struct {
	// Name identifies the plan.
	Name string `json:"name"`

	// Limits has the calls per day of endpoints that the plan gives access
	// to: a number, "unlimited", or null for no daily limit here. An endpoint
	// without a limit, here or among the further limits, is not accessible; a
	// plan without endpoints gives no access at all.
	Limits map[string]*Limit `json:"limits,omitempty"`

	// TokenPrefix is the word of new tokens of the plan's accounts. It gives no
	// right. Default: that of the app.
	TokenPrefix string `json:"token_prefix,omitempty"`

	// MoreLimits has further limits. A plan that has limits of "all" only is
	// refused: they give no access.
	MoreLimits []LimitConfig `json:"more_limits,omitempty"`

	// Concurrent limits how many calls of an account run at once. One more gets
	// 429. Default: no such limit.
	Concurrent []ConcurrentConfig `json:"concurrent,omitempty"`
}

// ConcurrentConfig limits the calls that run at once. A call runs until its answer
// ends, also a stream or a connection with another protocol.
type ConcurrentConfig struct {
	// Endpoint is the name of the endpoint whose calls the limit covers, or
	// "all", as in more_limits.
	Endpoint string `json:"endpoint"`

	// Limit is how many calls may run at once, from 1 to 1,000,000.
	Limit int64 `json:"limit"`
}

// LimitConfig is one limit of a plan. The RateLimit headers have the daily
// limits of the member limits first, and then these in their order.
type LimitConfig struct {
	// Endpoint is the name of the endpoint whose calls the limit covers. The
	// plan gives access to it. "all" covers the calls to all endpoints
	// together except the gate's own usage endpoint, and gives no access.
	Endpoint string `json:"endpoint"`

	// Period is "day", "week" (from Monday) or "month", a period of the
	// calendar in the configured zone; or "total", which does not renew: top-ups
	// of an account add to it; or "second", "minute" or "hour", a pace: a token
	// bucket that admits the limit at once and is refilled evenly over the
	// period. A month begins on the account's billing day. A plan has one limit
	// for each endpoint and period, and one of calls. Default "day".
	Period string `json:"period,omitempty"`

	// Limit is a number of calls, by their cost, from 0 to 10^15, or
	// "unlimited". A pace is at least 1.
	Limit Limit `json:"limit"`

	// Soft is the ceiling of a soft limit of a day, a week or a month: calls
	// above Limit pass and are overage in the export, calls above Soft are
	// refused. Default 0: calls above Limit are refused.
	Soft int64 `json:"soft,omitempty"`

	// Calls counts each call as 1, whatever it costs, from the first call with
	// this limit on. Default: the cost of calls.
	Calls bool `json:"calls,omitempty"`
}

// LoginThrottle limits login attempts, against password guessing.
type LoginThrottle struct {
	// PerClient is how many attempts one client (an IPv4 address or an
	// IPv6 /64) may make in any window. Default 5.
	PerClient int `json:"per_client,omitempty"`

	// Window is the length of that window. Default 1m.
	Window Duration `json:"window,omitempty"`

	// FreeFailures is how many failed attempts on one account need no
	// wait. Default 10.
	FreeFailures int `json:"free_failures,omitempty"`

	// FirstWait is the wait after the first failure that is not free. Each
	// further failure doubles it. Default 30s.
	FirstWait Duration `json:"first_wait,omitempty"`

	// MaxWait is the longest wait. Default 15m.
	MaxWait Duration `json:"max_wait,omitempty"`
}

// Mode is what happens to calls that break a rule.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow"
)

// Refund decides which failed calls are refunded.
type Refund string

// The refund rules.
const (
	RefundUnreachable  Refund = "unreachable"
	RefundServerErrors Refund = "server_errors"
	RefundErrors       Refund = "errors"
	RefundNever        Refund = "never"
)

func (r Refund) check() error {
	switch r {
	case RefundUnreachable, RefundServerErrors, RefundErrors, RefundNever:
		return nil
	}
	return fmt.Errorf("%q is none of never, unreachable, server_errors, errors", r)
}

// Errors is how refusals are written.
type Errors string

// The forms of refusals.
const (
	ErrorsJSON   Errors = "json"
	ErrorsPass   Errors = "pass"
	ErrorsOpenAI Errors = "openai"
)

func (e Errors) check() error {
	switch e {
	case ErrorsJSON, ErrorsPass, ErrorsOpenAI:
		return nil
	}
	return fmt.Errorf("%q is none of json, pass, openai", e)
}

// Error is a mistake in a Config. Subject names the wrong part, so that a
// parser can add its line: "timezone", "guard /api/", "login POST /login",
// "endpoint convert", "endpoint convert GET /convert", "endpoint convert cost", "plan starter", "plan starter
// convert", "plan starter convert month", "plan starter all month" and so on.
type Error struct {
	Subject string
	Err     error
	// Other is another part that the mistake is about, or "".
	Other string
}

// Error returns the subject and the mistake.
func (e *Error) Error() string { return e.Subject + ": " + e.Err.Error() }

// Unwrap returns the mistake.
func (e *Error) Unwrap() error { return e.Err }

func mistake(subject, format string, args ...any) error {
	return &Error{Subject: subject, Err: fmt.Errorf(format, args...)}
}

// Subject returns the part of the configuration that an Error names, or "".
func Subject(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Subject
	}
	return ""
}

// Other returns the other part that an Error names, or "".
func Other(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Other
	}
	return ""
}
