package gate

import (
	"bufio"
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate/credential"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// errNoRequest is for a method and a target that the web server refuses before
// the gate.
var errNoRequest = apierror.New(http.StatusBadRequest, "invalid_request", "The method and the target are not an HTTP request: the web server refuses them before the gate.")

// Question is a request that a client could send now.
type Question struct {
	Method, Target string
	// Account is nil for a request without a token.
	Account *store.Account
	// Key is a key of Account. Nil is a key with all abilities of the plan
	// and without restrictions.
	Key *store.Key
	// From is the address of the client, if it is known.
	From netip.Addr
	// Cost is the number of elements in the body, for endpoints with
	// cost json. 0 means 1.
	Cost int64
}

// Foreseen is what the gate would decide about a request.
type Foreseen struct {
	// Route is the zero Route for an open path.
	Route policy.Route
	// Special tells that there are several ways to read the path.
	Special bool
	// Cost is what the call costs or reserves, 0 without a valid token.
	Cost int64
	// Limits are those that cover the call, and Rooms what they admit at At.
	Limits []store.Limit
	Rooms  []store.Room
	At     time.Time
	// Refusal is nil if mode enforce passes the request. Step is the step that
	// refuses it.
	Refusal *refusal.Refusal
	Step    Step
	// Passes tells whether the mode of the gate passes the request.
	Passes bool
}

// Step is a step of the gate.
type Step string

// The steps that refuse requests, in order.
const (
	StepPath        Step = "path"
	StepRoute       Step = "route"
	StepToken       Step = "token"
	StepAddress     Step = "address"
	StepEntitlement Step = "entitlement"
	StepCost        Step = "cost"
	StepQuota       Step = "quota"
)

// Foresee returns what Serve would decide. It assumes that the headers and the
// body are valid, and counts, records and logs nothing.
//
// It decides as Serve does, with a token of its own that a silent gate takes for
// the key of the question.
func (g *Gate) Foresee(ctx context.Context, q Question) (Foreseen, error) {
	r, err := q.request(ctx)
	if err != nil {
		return Foreseen{}, err
	}
	s := &silent{question: q, policy: g.Policy}
	quiet := *g
	quiet.Server, quiet.Reporter, quiet.Logger, quiet.outages = s, s, zap.NewNop(), newOutages(zap.NewNop(), g.Policy.Endpoints)
	quiet.Store = func() (Store, error) { return s, nil }
	quiet.credentials = credential.New(g.Policy, s) // who asks is not who calls
	quiet.bodyCost = func(*http.Request, *policy.Endpoint) (int64, *refusal.Refusal) { return max(1, q.Cost), nil }
	d := quiet.route(r, r.RequestURI)
	d.mark, d.began, d.facts = new(Mark), g.Now(), request.Read(r, d.Route)
	if d.refusal == nil && d.Endpoint != nil {
		if s.Store, err = g.Store(); err != nil {
			return Foreseen{}, err
		}
		quiet.decide(r, &d)
		if own := d.mark.reservation; own != nil {
			g.Reservations.settled(own)
			g.Reservations.forget(own)
		}
	}
	x := Foreseen{Route: d.Route, Special: d.Special != "", Passes: true}
	if c := d.call; c != nil {
		if x.Cost = c.cost; c.plan != nil && len(c.limits) > 0 && s.err == nil {
			if c.rooms == nil {
				s.err = c.readRooms()
			}
			x.Limits, x.Rooms, x.At = c.limits, c.rooms, c.began
		}
	}
	if d.refusal != nil {
		x.Step = d.refusedBy(r)
		x.Passes = !g.enforces(d.Endpoint) && quiet.passRefused(r, &d)
		x.Refusal = d.refusal // mode shadow may find another one
	}
	return x, s.err
}

// refusedBy returns the step that refuses the request.
func (d *decision) refusedBy(r *http.Request) Step {
	f := d.refusal
	switch {
	case f == refusal.BadPath, strings.EqualFold(r.Method, http.MethodConnect), strings.EqualFold(r.Method, http.MethodTrace):
		return StepPath
	case d.Endpoint == nil:
		return StepRoute
	case d.call == nil:
		return StepToken
	case f.Code == "address_not_allowed":
		return StepAddress
	case f.Code == "cost_above_limit":
		return StepCost
	case f.Status == http.StatusTooManyRequests:
		return StepQuota
	}
	return StepEntitlement
}

// request makes the request as a server would read it from a client.
func (q *Question) request(ctx context.Context) (*http.Request, error) {
	if strings.ContainsFunc(q.Method+q.Target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return nil, errNoRequest
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(q.Method + " " + q.Target + " HTTP/1.1\r\nHost: gate\r\n\r\n")))
	if err != nil {
		return nil, errNoRequest
	}
	if q.Account != nil {
		tok, err := token.New(token.Key, rand.Reader)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+tok.Reveal())
	}
	return r.WithContext(ctx), nil
}

// silent is the server, the reporter and the store of an explained request. It
// has the grant of the question, and counts and reports nothing.
type silent struct {
	Server
	Store
	question Question
	policy   *policy.Policy
	err      error // of the store
}

// Client implements Server.
func (s *silent) Client(*http.Request) string { return s.question.From.String() }

// Identity implements Server.
func (*silent) Identity(*http.Request, string) string { return "" }

// Identified implements Server.
func (*silent) Identified(*http.Request, *Call) {}

// Ended implements Server.
func (*silent) Ended(*http.Request, string, string) {}

// Count implements Server.
func (*silent) Count(*policy.Endpoint, outcome.Call) {}

// Refused implements Reporter.
func (*silent) Refused(string, *policy.Endpoint, string, store.NoGrant) {}

// Reached implements Reporter.
func (*silent) Reached(store.Quota) {}

// Grant implements Store: it returns what the store returns for the token of
// the key. Without an address of the client, the key allows all.
func (s *silent) Grant(_ context.Context, _ token.Hash, now time.Time) (store.Grant, error) {
	account, key := s.question.Account, s.question.Key
	why := store.NoGrant("")
	if key != nil {
		why = key.NoGrant(now, account.Disabled)
	} else if account.Disabled {
		why = store.Disabled
	}
	if why != "" {
		return store.Grant{}, refusal.Ended(why, key == nil && s.policy.Identity != nil)
	}
	grant := store.Grant{Account: account.ID, Plan: account.Plan, Overrides: account.Overrides}
	if key == nil {
		if plan := s.policy.Plan(account.Plan); plan != nil {
			grant.Abilities = plan.All
		}
		return grant, nil
	}
	grant.Key, grant.KeyName, grant.Abilities = key.ID, key.Name, strings.Join(key.Abilities, " ")
	grant.Restriction, grant.Until = key.Restriction(), key.ExpiresAt
	if grant.Restriction != nil && !s.question.From.IsValid() {
		grant.Restriction.Addresses = nil
	}
	return grant, nil
}

// Take implements Store.
func (s *silent) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	err := s.Rooms(ctx, call, limits, rooms)
	return !slices.ContainsFunc(rooms, func(room store.Room) bool { return room.Remaining < call.Cost }), err
}

// Rooms implements Store.
func (s *silent) Rooms(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	if len(limits) == 0 {
		return nil
	}
	s.err = s.Store.Rooms(ctx, call, limits, rooms)
	return s.err
}
