// Package gate decides about one request at a time: who is calling, may
// they, have they calls left. It needs net/http and no Caddy.
//
// Gate.Serve is the way of one request, and its steps stand there in
// order: the headers, the path, the route, the token, what the account
// is entitled to, one call of the day's quota, the upstream, the answer,
// and where nobody answered, the call given back. The first step that
// objects returns a Refusal, and one place writes it out.
package gate

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/route"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Server is the web server that the gate stands in. Its methods are
// called on the goroutine of the request.
type Server interface {
	// Target returns the request target as the client wrote it.
	Target(r *http.Request) string

	// Client returns the address of the client that made the request, as
	// far as the server trusts what it was told.
	Client(r *http.Request) string

	// Identified tells the server whose call this is, before the call is
	// entitled to anything. The call may be kept for as long as the
	// request is.
	Identified(r *http.Request, call *Call)

	// Mark keeps in the server's own state of a request, where no client
	// can write, that the gate has let it through: as that call, or as a
	// login by a call without an account. nil takes the mark off.
	Mark(r *http.Request, call *Call)

	// Passed tells whether a request has the mark.
	Passed(r *http.Request) bool

	// Status returns the status that an error of the next handler will be
	// answered with.
	Status(err error) int

	// Count counts an outcome; endpoint is nil where none was reached.
	Count(endpoint *policy.Endpoint, outcome Outcome)
}

// Handler answers requests that were let through.
type Handler interface {
	// ServeHTTP answers a request. An error says that it did not, unless
	// it has begun to write.
	ServeHTTP(w http.ResponseWriter, r *http.Request) error
}

// Options are what a Gate is made of. All but Proof are required.
type Options struct {
	Policy *policy.Policy
	// Store returns the store, or why there is none.
	Store func() (store.Store, error)
	// Throttle returns the login throttle's state, or why there is none.
	Throttle func() (*login.Throttle, error)
	// Assertions proves to the upstream whose call it is.
	Assertions *assertion.Signer
	// Proof is the static proof, which upstreams get as well unless it is
	// empty.
	Proof string
	// PassErrors hands refusals to the server as errors (a *Refusal),
	// their headers set, instead of writing them.
	PassErrors bool
	Server     Server
	Now        func() time.Time
	// Since returns how long ago Now was an instant. It need not read the
	// date, which takes a machine twice as long as time.Since does.
	Since  func(time.Time) time.Duration
	Logger *zap.Logger
}

// Gate decides. It is safe for concurrent use and holds no state beyond
// its options but what it said last.
type Gate struct {
	Options

	outages *outages
	terms   [][]terms // by Plan.Index and Endpoint.Index; last those without a plan
}

// New returns a gate.
func New(o Options) *Gate {
	g := &Gate{Options: o, outages: newOutages(o.Logger, o.Policy.Endpoints)}
	for _, plan := range o.Policy.Plans {
		g.terms = append(g.terms, g.termsOf(plan))
	}
	g.terms = append(g.terms, g.termsOf(nil))
	return g
}

func (g *Gate) termsOf(plan *policy.Plan) []terms {
	all := make([]terms, len(g.Policy.Endpoints))
	for i, e := range g.Policy.Endpoints {
		all[i].gate, all[i].endpoint, all[i].plan = g, e, plan
		all[i].limit, _ = plan.Limit(e)
		all[i].limits = []store.Limit{{Period: store.Day, Max: all[i].limit}}
	}
	return all
}

// Serve takes a request through the gate, once: where the gate stands in a
// chain of handlers twice, the second leaves alone what the first let
// through, whatever it was rewritten to between them.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, next Handler) error {
	if g.Server.Passed(r) {
		return next.ServeHTTP(w, r)
	}
	said := clean(r)
	to, found, closed, err := g.route(r)
	if err != nil {
		return g.refuse(w, r, nil, g.badTarget(r, err))
	}
	if said.cleanConnection(r.Header, to.Endpoint, found) {
		return g.refuse(w, r, to.Endpoint, refuseUpgrade)
	}
	switch {
	case found && to.Login:
		return g.login(w, r, next)
	case found:
		return g.endpoint(w, r, to.Endpoint, said, next)
	case !closed && g.Policy.Disguises(r.Method, r.URL.Path):
		g.Logger.Debug("refusing what a lenient server could take for a login", zap.String("method", r.Method), zap.String("path", r.URL.Path))
		return g.refuse(w, r, nil, refuseNotFound)
	case !closed:
		return g.open(w, r, next)
	}
	if allow := g.Policy.Allow(r.URL.Path); allow != "" {
		return g.refuse(w, r, nil, methodNotAllowed(allow))
	}
	return g.refuse(w, r, nil, refuseNotFound)
}

// route judges the target of a request and finds its route. Without one,
// closed tells whether nothing else is to be had there either.
func (g *Gate) route(r *http.Request) (to policy.Route, found, closed bool, err error) {
	target := g.Server.Target(r)
	if to, found = g.Policy.MatchWritten(r.Method, target, r.URL); found {
		return to, true, true, nil
	}
	if closed, err = g.Policy.Guard.CheckTarget(r.Method, target, r.URL); err != nil {
		return to, false, closed, err
	}
	to, found = g.Policy.Match(r.Method, r.URL.Path)
	return to, found, closed, nil
}

func (g *Gate) badTarget(r *http.Request, err error) *Refusal {
	if errors.Is(err, route.ErrBadMethod) {
		return methodNotAllowed(cmp.Or(g.Policy.Allow(r.URL.Path), anyMethod))
	}
	return refuseBadPath
}

// anyMethod is what a path allows that the gate knows nothing about.
const anyMethod = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// endpoint is the way of a metered request.
func (g *Gate) endpoint(w http.ResponseWriter, r *http.Request, e *policy.Endpoint, said seen, next Handler) error {
	now := g.Now()
	hash, refusal := bearer(said.authorization, r.URL.RawQuery)
	if refusal != nil {
		return g.refuse(w, r, e, refusal)
	}
	said.token = hash
	db, err := g.Store()
	if err != nil {
		return g.unavailable(w, r, e, err)
	}
	grant, err := db.Grant(r.Context(), hash, now)
	if err != nil {
		return g.notGranted(w, r, e, err)
	}
	c := &Call{
		terms: &g.terms[len(g.terms)-1][e.Index], store: db, request: r, began: now, path: r.URL.Path, head: r.Method != e.Method,
		account: grant.Account, planName: grant.Plan, key: grant.Key, keyName: grant.KeyName, handle: grant.Handle,
	}
	g.Server.Identified(r, c)

	if refusal = c.entitle(grant.Abilities); refusal == nil && e.Usage {
		c.history, refusal = usageDays(r)
	}
	if refusal != nil {
		return g.refuse(w, r, e, refusal)
	}
	admitted, err := c.take()
	if err != nil {
		return g.notGranted(w, r, e, err)
	}
	if !admitted {
		c.record(http.StatusTooManyRequests)
		return g.refuse(w, r, e, c.refuseExhausted())
	}
	g.outages.store.Worked()
	g.Server.Count(e, Admitted)
	return c.serve(w, r, said, next)
}

// notGranted answers where the store gave neither a grant nor a call.
func (g *Gate) notGranted(w http.ResponseWriter, r *http.Request, e *policy.Endpoint, err error) error {
	if errors.Is(err, store.ErrNoGrant) {
		return g.refuse(w, r, e, refuseInvalidToken)
	}
	return g.unavailable(w, r, e, err)
}

// entitle looks up what the account's plan, as it is now, gives to the
// endpoint, and whether the token carries the ability.
func (c *Call) entitle(abilities string) *Refusal {
	plan := c.gate.Policy.Plan(c.planName)
	if !plan.HasAccess() {
		return refusePlan
	}
	if _, listed := plan.Limit(c.endpoint); !listed {
		return refuseEntitlement
	}
	effective := plan.Effective(abilities)
	if !effective.Includes(c.endpoint) {
		return insufficientScope(c.endpoint)
	}
	c.terms, c.effective = &c.gate.terms[plan.Index][c.endpoint.Index], effective
	return nil
}

// take takes one call of the day's quota.
func (c *Call) take() (admitted bool, err error) {
	c.day = c.gate.Policy.Calendar.At(c.began)
	admitted, err = c.store.Take(c.request.Context(), c.counter(), c.limits, c.remains[:])
	if err != nil {
		c.day = nil
		return false, err
	}
	c.remaining = c.remains[0]
	return admitted, nil
}

// counter names where the call is counted.
func (c *Call) counter() store.Call {
	return store.Call{Account: c.account, Endpoint: c.endpoint.Name, Day: c.day.Day, Handle: c.handle}
}
