// Package gate checks requests: which account calls, may it, has it calls
// left. It needs net/http and no Caddy.
//
// Gate.Serve is the way of one request as a list of steps: path and route,
// headers, token, grant, the addresses of the key, entitlement, cost, take the
// cost from all limits, proxy, record, and a refund if no upstream
// answered. Each step returns what the next one needs, or a Refusal. If the
// grant was out of date, the steps from the addresses on are repeated.
// Gate.refuse writes all refusals.
package gate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/route"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/usage"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Server is the web server that calls the gate. The gate calls its methods
// on the goroutine of the request.
type Server interface {
	// Target returns the request target as the client wrote it.
	Target(r *http.Request) string

	// Client returns the IP address of the client, by the server's rules
	// about trusted proxies.
	Client(r *http.Request) string

	// Identity returns the value of a placeholder of the server, or "". Of a
	// request that was Identified before, it returns the user of that call:
	// the gate itself may have set the placeholder.
	Identity(r *http.Request, placeholder string) string

	// Identified tells the server the account and key of a request, before
	// the gate checks what they may call. The server may keep the call as
	// long as the request.
	Identified(r *http.Request, call *Call)

	// Mark stores in the server's own state of a request, which clients
	// cannot write, that the gate has passed it. A login has a call
	// without an account. nil removes the mark.
	Mark(r *http.Request, call *Call)

	// Passed tells whether a request has the mark.
	Passed(r *http.Request) bool

	// Status returns the status of the answer to an error of the next
	// handler.
	Status(err error) int

	// Proxied tells whether a proxy of the server has chosen a service for a
	// request.
	Proxied(r *http.Request) bool

	// RemoveQuery removes the query from what error routes get of a request.
	RemoveQuery(r *http.Request)

	// Count counts an outcome; endpoint is nil if the request reached none.
	Count(endpoint *policy.Endpoint, outcome Outcome)

	// CountLogin counts the outcome of a login attempt.
	CountLogin(outcome LoginOutcome)

	// Decided tells how long the gate took to pass or refuse a metered
	// request.
	Decided(took time.Duration)
}

// Store is what the gate uses of a store. See package store for what the
// methods promise.
type Store interface {
	Grant(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error)
	Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error)
	GrantAccount(ctx context.Context, account string, fresh bool) (store.Grant, error)
	Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (admitted bool, err error)
	Rooms(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error
	GiveBack(ctx context.Context, call store.Call) error
	Record(record store.Record)
	usage.Source
}

// Handler answers requests that the gate passes.
type Handler interface {
	// ServeHTTP answers a request. An error means that it has not answered,
	// unless it has begun to write.
	ServeHTTP(w http.ResponseWriter, r *http.Request) error
}

// Options configure a Gate. All are required; Guesses only with foreign keys,
// and Enrol only with identities.
type Options struct {
	Policy *policy.Policy
	// Store returns the store, or why there is none.
	Store func() (Store, error)
	// Limiter returns the login limiter, or why there is none.
	Limiter func() (login.Limiter, error)
	// Guesses limits unknown foreign tokens.
	Guesses *login.Guesses
	// Enrol creates the account of a user on a plan, unless it exists.
	Enrol func(ctx context.Context, account, user, plan string) error
	// Assertions proves to the upstream which account calls.
	Assertions *assertion.Signer
	// PassErrors returns refusals to the server as errors (a *Refusal),
	// with their headers set, instead of writing them.
	PassErrors bool
	Server     Server
	Reporter   Reporter
	Now        func() time.Time
	// Since returns the time since an instant of Now. It need not read the
	// date, which takes twice as long as time.Since does.
	Since  func(time.Time) time.Duration
	Logger *zap.Logger
}

// Gate checks requests. It is safe for concurrent use. Besides its options
// it has only caches.
type Gate struct {
	Options

	vary string // the headers that have tokens, separated by ", "
	// unauthenticated refuses a request without a token.
	unauthenticated *Refusal
	// notFound is sent for refuseNotFound.
	notFound *Refusal

	outages      *outages
	entitlements [][]entitlement // by Plan.Index and Endpoint.Index; the last are those without a plan
}

// New returns a gate.
func New(o Options) *Gate {
	g := &Gate{Options: o, outages: newOutages(o.Logger, o.Policy.Endpoints)}
	g.unauthenticated = unauthenticated(o.Policy.TokenHeader)
	g.notFound = notFound(o.Policy.Docs)
	g.vary = "Authorization"
	if name := o.Policy.TokenHeader; name != "" {
		g.vary += ", " + name
	}
	for _, plan := range o.Policy.Plans {
		g.entitlements = append(g.entitlements, g.entitlementsOf(plan))
	}
	g.entitlements = append(g.entitlements, g.entitlementsOf(nil))
	return g
}

// Serve takes a request through the gate once: where the gate is twice in
// a chain of handlers, the second one passes all requests that the first
// one has passed, also after a rewrite.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, next Handler) error {
	if g.Server.Passed(r) {
		return next.ServeHTTP(w, r)
	}
	began := g.Now()
	to := g.route(r, g.Server.Target(r))
	if g.Policy.CORS != nil && g.sharesAnswers(r, to) {
		a := g.newCORSAnswer(w, r)
		defer a.begin(0) // the server answers if no handler has
		if to.refusal != refuseBadPath && g.preflight(a, r) {
			return nil
		}
		w = a
	}
	held := readHeaders(r, to.Route)
	switch {
	case to.refusal != nil:
		g.logRewritten(r, to)
		if g.isShadow() && !to.always {
			return g.letPass(w, r, nil, to.refusal, held, next)
		}
		return g.refuse(w, r, "", nil, to.refusal)
	case to.Endpoint != nil:
		return g.endpoint(w, r, to.Endpoint, held, began, next)
	case to.Login && isExtendedConnect(r):
		return g.refuse(w, r, "", nil, refuseUpgrade)
	case to.Login:
		return g.login(w, r, to.Strict, held, next)
	case g.isShadow():
		return passUnchanged(w, r, held, next)
	}
	return g.open(w, r, held, next)
}

// destination is what the gate finds in a request target. An open path has the zero
// Route and no refusal.
type destination struct {
	policy.Route
	route.Target
	refusal *Refusal
	always  bool // shadow refuses the request too
}

// route checks the target of a request, as the client wrote it and as it is
// now, and finds its route. A handler in front of the gate can rewrite the path,
// and the service can read both spellings. If one of them is closed, the request
// needs a route.
func (g *Gate) route(r *http.Request, written string) (to destination) {
	method, path := methodOf(r), r.URL.Path
	var err error
	to.Target, err = g.Policy.Guard.CheckTarget(method, written, r.URL)
	switch {
	case errors.Is(err, route.ErrBadMethod):
		to.refusal, to.always = methodNotAllowed(cmp.Or(g.Policy.Routes.Allow(path), anyMethod)), true
		return to
	case err != nil:
		to.refusal, to.always = refuseBadPath, true
		return to
	}
	var found bool
	if to.Route, found = g.Policy.Routes.Match(method, path); found {
		if to.Names != nil { // an open path: the route is a login
			to.Route, to.refusal, to.always = policy.Route{}, refuseBadPath, true
		}
		return to
	}
	// A login that is no route, for a lenient server or before a rewrite, would
	// bypass the limits of login attempts.
	alias := (!to.Closed || g.isShadow()) && g.isLoginAlias(method, path, to.Target)
	if !to.Closed && !alias {
		return to
	}
	to.refusal, to.always = refuseNotFound, alias
	if !to.Closed {
		g.Logger.Debug("refusing a path that a lenient server could serve as a login", zap.String("method", method), zap.String("path", path))
	} else if allow := g.Policy.Routes.Allow(path); allow != "" {
		to.refusal = methodNotAllowed(allow)
	}
	return to
}

// isLoginAlias tells whether a server could serve one of the readings of a path
// as a login.
func (g *Gate) isLoginAlias(method, path string, read route.Target) bool {
	alias := func(path string) bool { return g.Policy.IsLoginAlias(method, path) }
	return alias(path) || read.Written != "" && alias(read.Written) || slices.ContainsFunc(read.Names, alias)
}

// anyMethod is the Allow header of a path that is no route.
const anyMethod = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// endpoint serves a metered request that came at began.
func (g *Gate) endpoint(w http.ResponseWriter, r *http.Request, e *policy.Endpoint, held headers, began time.Time, next Handler) error {
	shadow := g.isShadow() && !e.Usage
	by, fault := g.credentialOf(r, e, held)
	known := fault == nil
	if !known && shadow {
		// An invalid token is refused, also in a request with another fault.
		by, known = g.knownCredential(r, e, held)
	}
	if !known {
		g.Server.Decided(g.Since(began))
		if shadow {
			return g.letPass(w, r, e, fault, held, next)
		}
		return g.refuse(w, r, "", e, fault)
	}
	c, refusal := g.identify(r, e, by, began)
	if refusal == nil {
		refusal = c.decide(fault)
	}
	g.Server.Decided(g.Since(began))
	switch {
	case refusal == nil:
		g.outages.store.Worked()
		g.Server.Count(e, Admitted)
	case c == nil && shadow && by.mayBelongToService(refusal):
		return g.letPass(w, r, e, refusal, held, next)
	case c == nil:
		return g.refuse(w, r, "", e, refusal)
	case !shadow || c.unsure || refusal == refuseInvalidToken:
		c.recordRefusal(refusal)
		return g.refuse(w, r, c.grant.Account, e, refusal)
	default:
		c.letPass(refusal, &held)
	}
	return c.proxy(w, held, next)
}

// identify returns the call of a request whose credential the store knows.
func (g *Gate) identify(r *http.Request, e *policy.Endpoint, by credential, now time.Time) (*Call, *Refusal) {
	db, err := g.Store()
	if err != nil {
		return nil, g.storeFailed(err)
	}
	grant, refusal := g.find(r, db, &by, now)
	if refusal != nil {
		return nil, refusal
	}
	c := &Call{
		entitlement: &g.entitlements[len(g.Policy.Plans)][e.Index], credential: by, grant: grant,
		store: db, request: r, began: now, path: r.URL.Path, head: r.Method == http.MethodHead && e.Method != http.MethodHead, shadow: g.isShadow() && !e.Usage,
	}
	g.Server.Identified(r, c)
	return c, nil
}

// storeFailed returns the refusal of a request after an error of the store,
// and logs the error, with whose request it is, if the store has failed.
func (g *Gate) storeFailed(err error, whose ...slog.Attr) *Refusal {
	switch {
	case errors.Is(err, store.ErrNoGrant):
		return refuseInvalidToken
	case errors.Is(err, store.ErrChanged):
		return refuseChanged
	}
	failed(g.outages.store, err, whose...)
	return refuseUnavailable
}
