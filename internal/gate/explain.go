package gate

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/usage"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
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

// Explain returns what Serve would answer, step by step. It assumes that
// the headers and the body are valid, and counts, records and logs nothing.
//
// It decides as Serve does, with a token of its own that a silent gate takes for
// the key of the question.
func (g *Gate) Explain(ctx context.Context, q Question) (api.Explanation, error) {
	r, err := q.request(ctx)
	if err != nil {
		return api.Explanation{}, err
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
			return api.Explanation{}, err
		}
		quiet.decide(r, &d)
		if own := d.mark.reservation; own != nil {
			g.Reservations.settled(own)
			g.Reservations.forget(own)
		}
	}
	x := api.Explanation{
		Request: api.ExplainedRequest{Method: q.Method, Target: q.Target}, Mode: string(g.Policy.Mode), Steps: q.steps(&d), Limits: []api.ExplainedLimit{},
	}
	if q.Account != nil {
		x.Account, x.Plan = q.Account.ID, q.Account.Plan
	}
	if q.Key != nil {
		x.Key = q.Key.ID
	}
	if c := d.call; c != nil && c.plan != nil && len(c.limits) > 0 && s.err == nil {
		x.Limits, s.err = c.explainLimits(ctx, q.Key)
	}
	last := &x.Steps[len(x.Steps)-1]
	x.Admitted, x.Passes, x.Message = last.OK, last.OK, last.Message
	if f := d.refusal; f != nil {
		shadow := !g.enforces(nil)
		x.Passes = shadow && !g.enforces(d.Endpoint) && quiet.passRefused(r, &d)
		f = d.refusal // mode shadow may find another one
		x.Status, x.Code, x.Message, last.Message = &f.Status, &f.Code, f.Message, cmp.Or(q.why(f), f.Message)
		if f.RetryAfter > 0 {
			x.RetryAfter = &f.RetryAfter
		}
		if x.Passes {
			x.Message += " The mode is shadow: the request passes."
		} else if shadow {
			x.Message += " Mode shadow also refuses the request."
		}
	}
	return x, s.err
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

// steps returns the steps up to the one that refuses the request.
func (q *Question) steps(d *decision) []api.ExplainedStep {
	path := "There is one way to read the path."
	if d.Special != "" {
		path = "Each way to read the path leads to the same route."
	}
	var steps []api.ExplainedStep
	passed := func(step, message string) {
		steps = append(steps, api.ExplainedStep{Step: step, OK: true, Message: message})
	}
	passed("path", path)
	passed("headers", "The gate removes headers that clients must not set.")
	e, c, pass := d.Endpoint, d.call, "The request passes to the service."
	switch {
	case d.Login:
		passed("route", "A login. It needs no token; the limits of login attempts apply.")
		pass = "If the limits of login attempts allow it, the request passes to the service. The service checks the password."
	case e == nil:
		passed("route", "An open path: no login, no endpoint, and not below a guard.")
		pass += " An open path needs no token."
	default:
		passed("route", "The endpoint "+e.Name+".")
		passed("token", "The key is live, and the account is not disabled.")
		passed("address", q.addressMessage())
		passed("entitlement", "The plan has the endpoint, and the key has the ability "+e.Ability+".")
		if c != nil {
			message := "The call costs " + strconv.FormatInt(c.cost, 10) + "."
			if e.CostHeader != "" {
				message = "The call reserves " + strconv.FormatInt(c.cost, 10) + ". The header " + e.CostHeader + " of the answer tells what it costs."
			}
			passed("cost", message)
		}
		passed("quota", "Each limit has room for the call.")
		if e.Usage {
			pass = "The gate answers with the usage of the account."
		}
	}
	passed("proxy", pass)
	if d.refusal == nil {
		return steps
	}
	refusing, f := "entitlement", d.refusal
	switch {
	case f == refusal.BadPath, strings.EqualFold(q.Method, http.MethodConnect), strings.EqualFold(q.Method, http.MethodTrace):
		refusing = "path"
	case e == nil:
		refusing = "route"
	case c == nil:
		refusing = "token"
	case f.Code == "address_not_allowed":
		refusing = "address"
	case f.Code == "cost_above_limit":
		refusing = "cost"
	case f.Status == http.StatusTooManyRequests:
		refusing = "quota"
	}
	at := slices.IndexFunc(steps, func(s api.ExplainedStep) bool { return s.Step == refusing })
	steps[at].OK, steps[at].Message = false, f.Message
	return steps[:at+1]
}

// why is the reason of an invalid token in words, or "". Clients do not see it.
func (q *Question) why(f *refusal.Refusal) string {
	same := ""
	if f.Message == refusal.InvalidToken.Message {
		same = " Clients see the same answer for all tokens that are not valid."
	}
	switch f.Reason {
	case store.Revoked:
		return "The key was revoked at " + inUTC(q.Key.RevokedAt) + "." + same
	case store.Expired:
		return "The key expired at " + inUTC(q.Key.ExpiresAt) + "." + same
	case store.Disabled:
		return "The account " + q.Account.ID + " is disabled." + same
	}
	return ""
}

func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// addressMessage tells why the address of the client is allowed.
func (q *Question) addressMessage() string {
	switch {
	case q.Key == nil || len(q.Key.Addresses) == 0:
		return "The key may be used from any address."
	case q.From.IsValid():
		return "The key may be used from " + q.From.String() + "."
	}
	networks := make([]string, len(q.Key.Addresses))
	for i, network := range q.Key.Addresses {
		networks[i] = network.String()
	}
	return fmt.Sprintf("This depends on the address of the client, which is not given. The key may be used from %s.", strings.Join(networks, ", "))
}

// explainLimits returns what is left and what was used of each limit.
func (c *Call) explainLimits(ctx context.Context, key *store.Key) ([]api.ExplainedLimit, error) {
	if c.rooms == nil {
		if err := c.readRooms(); err != nil {
			return nil, err
		}
	}
	used, err := usage.Limits(ctx, c.gate.Policy, c.store, usage.Query{Account: c.grant.Account, Key: key, Now: c.began}, c.limits)
	if err != nil {
		return nil, err
	}
	shown := make([]api.ExplainedLimit, len(c.limits))
	for i, limit := range c.limits {
		remaining := c.rooms[i].Remaining
		shown[i] = api.ExplainedLimit{
			Endpoint: limit.Endpoint, Period: limit.Period.String(), Limit: limit.Max, Of: refusal.Of(limit),
			Used: used[i].Used, Remaining: remaining, ResetsAt: used[i].ResetsAt, Refuses: remaining < c.cost,
		}
	}
	return shown, nil
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
func (*silent) Reached(event.Quota) {}

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
