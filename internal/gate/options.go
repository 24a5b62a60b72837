package gate

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/gate/credential"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/gate/tell"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

// Store is what the gate uses of a store: of a book.Book. See packages store and
// book for what the methods promise.
type Store interface {
	store.Grants
	store.Counter
	store.Concurrency
	// EndTopUps ends the top-ups of an account that have ended at a time: what is
	// left of them is gone. Limits of all endpoints do not cover except. See
	// store.Terms.Lapsed.
	EndTopUps(ctx context.Context, account, except string, at time.Time) error
	Record(record store.Record)
	usage.Source
}

// Server is the web server that calls the gate. The gate calls its methods
// on the goroutine of the request, and Count also after it.
type Server interface {
	// Identity returns the value of a placeholder of the server, or "". Of a
	// request that was Identified before, it returns the user of that call:
	// the gate itself may have set the placeholder.
	Identity(r *http.Request, placeholder string) string

	// Placeholder returns the value of a placeholder of the server, or "".
	Placeholder(r *http.Request, placeholder string) string

	// Identified tells the server the account and key of a request, before
	// the gate checks what they may call. The server may keep the call as
	// long as the request.
	Identified(r *http.Request, call *Call)

	// Ended tells the server the account of a request that the gate refuses
	// because its token or the account has ended, and the key if there is one.
	Ended(r *http.Request, account, key string)

	// RequestID returns the id that the server gives a request. With shown, it
	// returns "" unless something else shows the id: an access log, or a
	// header. It must not be called once the next handler has the request.
	RequestID(r *http.Request, shown bool) string

	// Mark returns the mark of a request: always the same one, from the
	// server's own state of the request, which clients cannot write. Its Target
	// and Client are set.
	Mark(r *http.Request) *Mark

	// Status returns the status of the answer to an error of the next
	// handler.
	Status(err error) int

	// Proxied tells whether a proxy of the server has chosen a service for a
	// request.
	Proxied(r *http.Request) bool

	// RemoveQuery removes the query from what error routes get of a request.
	RemoveQuery(r *http.Request)

	// Count counts the result of a request; endpoint is nil if the request
	// reached none.
	Count(endpoint *policy.Endpoint, result outcome.Call)

	// CountLogin counts the result of a login attempt.
	CountLogin(result outcome.Login)

	// Decided tells how long the gate took to pass or refuse a metered
	// request.
	Decided(took time.Duration)
}

// Reporter gets the refused calls, and the limits that accounts reach. It is
// safe for concurrent use.
type Reporter interface {
	// Refused reports that the gate refused a request, or would have refused
	// it in mode enforce. The account is empty if it is not known,
	// endpoint is nil if the request reached none. reason is that of a token
	// that the store knows, or "". It does not block.
	Refused(account string, endpoint *policy.Endpoint, code string, reason store.NoGrant)

	// Reached reports that an account reached a percentage of a limit, or
	// that a limit refused a call. The gate calls it again for each later
	// call in the same state. It does not block.
	Reached(quota store.Quota)
}

// Handler answers requests that the gate passes.
type Handler interface {
	// ServeHTTP answers a request. An error means that it has not answered,
	// unless it has begun to write.
	ServeHTTP(w http.ResponseWriter, r *http.Request) error
}

// Options configure a Gate. All are required; Guesses only with foreign keys,
// Reservations only with a CostAnswer, and Enrol only with identities.
type Options struct {
	Policy *policy.Policy
	// Store returns the store, or why there is none.
	Store func() (Store, error)
	// Limiter returns the login limiter, or why there is none.
	Limiter func() (*login.Limiter, error)
	// Guesses limits unknown foreign tokens.
	Guesses *login.Guesses
	// Reservations are those of the calls in progress.
	Reservations *Reservations
	// Enrol creates the account of a user on a plan, unless it exists.
	Enrol func(ctx context.Context, account, user, plan string) error
	// Assertions proves to the service which account calls.
	Assertions *assertion.Signer
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

	credentials  *credential.Reader
	vary         string           // the headers that have tokens, separated by ", "
	notFound     *refusal.Refusal // with the address of the documentation
	except       string           // the endpoint that limits of all endpoints do not cover, or ""
	outages      *outages
	bodyCost     func(*http.Request, *policy.Endpoint) (int64, *refusal.Refusal)
	tellers      []*tell.Members // of answers, by Endpoint.Index, nil without
	settling     *atomic.Int64   // settlements under way
	reserves     bool            // an endpoint has a CostAnswer
	foresees     bool            // nothing is counted: see Foresee
	entitlements [][]entitlement // by Plan.Index and Endpoint.Index; the last are those without a plan
}

// New returns a gate.
func New(o Options) *Gate {
	g := &Gate{
		Options: o, credentials: credential.New(o.Policy, o.Server), vary: "Authorization", except: o.Policy.Except(),
		notFound: refusal.NotFound(o.Policy.Docs), outages: newOutages(o.Logger, o.Policy.Endpoints), bodyCost: bodyCost, settling: new(atomic.Int64),
	}
	g.reserves = slices.ContainsFunc(o.Policy.Endpoints, func(e *policy.Endpoint) bool { return e.Answer != nil })
	g.tellers = make([]*tell.Members, len(o.Policy.Endpoints))
	for i, e := range o.Policy.Endpoints {
		if e.Answer != nil && e.Answer.Header == "" {
			g.tellers[i] = tell.NewMembers(e.Answer)
		}
	}
	if slices.ContainsFunc(g.tellers, func(m *tell.Members) bool { return m != nil }) {
		g.credentials.Headers = append(g.credentials.Headers, request.AcceptEncoding)
	}
	if name := o.Policy.TokenHeader; name != "" {
		g.vary += ", " + name
	}
	for _, plan := range append(o.Policy.Plans[:len(o.Policy.Plans):len(o.Policy.Plans)], nil) {
		all := make([]entitlement, len(o.Policy.Endpoints))
		for i, e := range o.Policy.Endpoints {
			all[i].endpoint, all[i].plan = e, plan
		}
		g.entitlements = append(g.entitlements, all)
	}
	return g
}
