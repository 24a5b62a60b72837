package gate

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/usage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
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

// explaining is the state of one explanation. It takes the same steps as
// Serve with the same functions, but reads rooms instead of taking calls.
type explaining struct {
	Question
	gate *Gate
	// final tells that mode shadow refuses the request too.
	final bool
	api.Explanation
}

// Explain returns what Serve would answer, step by step. It assumes that
// the headers and the body are valid, and counts, records and logs nothing.
func (g *Gate) Explain(ctx context.Context, q Question) (api.Explanation, error) {
	r, err := read(ctx, q)
	if err != nil {
		return api.Explanation{}, err
	}
	x := &explaining{Question: q, gate: g}
	x.Request = api.ExplainedRequest{Method: q.Method, Target: q.Target}
	x.Mode, x.Steps, x.Limits = string(g.Policy.Mode), []api.ExplainedStep{}, []api.ExplainedLimit{}
	if q.Account != nil {
		x.Explanation.Account, x.Plan = q.Account.ID, q.Account.Plan
	}
	if q.Key != nil {
		x.Explanation.Key = q.Key.ID
	}
	d := g.route(r, r.RequestURI)
	x.final = d.final
	if d.refusal == refusal.BadPath || d.refusal != nil && isTunnel(q.Method) {
		return x.refused("path", d.refusal)
	}
	x.passed("path", "There is one way to read the path.")
	x.passed("headers", "The gate removes headers that clients must not set.")
	switch {
	case d.refusal != nil:
		return x.refused("route", d.refusal)
	case d.Login:
		x.passed("route", "A login. It needs no token; the limits of login attempts apply.")
		return x.admitted("If the limits of login attempts allow it, the request passes to the service. The service checks the password.")
	case d.Endpoint == nil:
		x.passed("route", "An open path: no login, no endpoint, and not below a guard.")
		return x.admitted("The request passes to the service. An open path needs no token.")
	}
	x.passed("route", "The endpoint "+d.Endpoint.Name+".")
	return x.explainCall(r, d.Endpoint)
}

// read makes the request as a server would read it from a client.
func read(ctx context.Context, q Question) (*http.Request, error) {
	if strings.ContainsFunc(q.Method+q.Target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return nil, errNoRequest
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(q.Method + " " + q.Target + " HTTP/1.1\r\nHost: gate\r\n\r\n")))
	if err != nil {
		return nil, errNoRequest
	}
	return r.WithContext(ctx), nil
}

// isTunnel recognises the methods that the check of the path refuses.
func isTunnel(method string) bool {
	return strings.EqualFold(method, http.MethodConnect) || strings.EqualFold(method, http.MethodTrace)
}

// explainCall is Gate.decide for a known key.
func (x *explaining) explainCall(r *http.Request, e *policy.Endpoint) (api.Explanation, error) {
	db, err := x.gate.Store()
	if err != nil {
		return api.Explanation{}, err
	}
	x.final = x.final || e.Usage
	now := x.gate.Now()
	if f := x.checkToken(r, e, now); f != nil {
		return x.refused("token", f)
	}
	x.passed("token", "The key is live, and the account is not disabled.")
	quiet := *x.gate
	quiet.Server, quiet.Reporter = clientAt{x.gate.Server, x.From}, silent{}
	c := &Call{
		entitlement: &quiet.entitlements[len(quiet.Policy.Plans)][e.Index], gate: &quiet, grant: x.grant(quiet.Policy),
		store: db, request: r, began: now, bodyCost: max(1, x.Cost),
	}
	if f := x.checkAddress(c); f != nil {
		return x.refused("address", f)
	}
	if f := c.entitle(); f != nil {
		return x.refused("entitlement", f)
	}
	x.passed("entitlement", "The plan has the endpoint, and the key has the ability "+e.Ability+".")
	if err := x.readLimits(c); err != nil {
		return api.Explanation{}, err
	}
	c.store = roomsRead{db, c.rooms}
	step, f := "cost", c.price()
	if f != nil && f.Status == http.StatusTooManyRequests {
		step = "quota"
	}
	if f == nil {
		x.passed("cost", "The call costs "+strconv.FormatInt(c.cost, 10)+".")
		step, f = "quota", c.take()
	}
	for i := range x.Limits {
		x.Limits[i].Refuses = x.Limits[i].Remaining < c.cost
	}
	if f != nil {
		return x.refused(step, f)
	}
	x.passed("quota", "Each limit has room for the call.")
	if e.Usage {
		return x.admitted("The gate answers with the usage of the account.")
	}
	return x.admitted("The request passes to the service.")
}

// clientAt is a server whose client has this address.
type clientAt struct {
	Server
	from netip.Addr
}

// Client implements Server.
func (s clientAt) Client(*http.Request) string { return s.from.String() }

// silent reports nothing.
type silent struct{ Reporter }

// Reached implements Reporter.
func (silent) Reached(context.Context, event.Quota) {}

// roomsRead is a store whose rooms were read before. It counts nothing.
type roomsRead struct {
	Store
	rooms []store.Room
}

// Take implements Store.
func (s roomsRead) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	copy(rooms, s.rooms)
	return !slices.ContainsFunc(rooms, func(room store.Room) bool { return room.Remaining < call.Cost }), nil
}

// Rooms implements Store.
func (s roomsRead) Rooms(_ context.Context, _ store.Call, _ []store.Limit, rooms []store.Room) error {
	copy(rooms, s.rooms)
	return nil
}

// checkToken is Reader.Read and Store.Grant for a known key.
func (x *explaining) checkToken(r *http.Request, e *policy.Endpoint, now time.Time) *refusal.Refusal {
	f := x.gate.credentials.Check(r, x.Question.Account != nil)
	if x.Question.Account == nil {
		return f
	}
	grants := !x.Question.Account.Disabled && (x.Question.Key == nil || x.Question.Key.Live(now))
	switch {
	case f != nil && (grants || x.gate.enforces(e)):
		return f
	case !grants:
		return refusal.InvalidToken
	}
	return nil
}

// grant is what the store returns for the token of the key.
func (x *explaining) grant(p *policy.Policy) store.Grant {
	account, key := x.Question.Account, x.Question.Key
	grant := store.Grant{Account: account.ID, Plan: account.Plan, Overrides: account.Overrides}
	if key == nil {
		if plan := p.Plan(account.Plan); plan != nil {
			grant.Abilities = plan.All
		}
		return grant
	}
	grant.Key, grant.KeyName, grant.Abilities = key.ID, key.Name, strings.Join(key.Abilities, " ")
	grant.Restriction, grant.Until = key.Restriction(), key.ExpiresAt
	return grant
}

// checkAddress is Call.checkAddress. The address of the client may not be known.
func (x *explaining) checkAddress(c *Call) *refusal.Refusal {
	own := c.grant.Restriction
	switch {
	case own == nil || len(own.Addresses) == 0:
		x.passed("address", "The key may be used from any address.")
	case !x.From.IsValid():
		x.passed("address", fmt.Sprintf("This depends on the address of the client, which is not given. The key may be used from %s.", list(own.Addresses)))
	default:
		if f := c.checkAddress(); f != nil {
			return f
		}
		x.passed("address", "The key may be used from "+x.From.String()+".")
	}
	return nil
}

func list(networks []netip.Prefix) string {
	texts := make([]string, len(networks))
	for i, network := range networks {
		texts[i] = network.String()
	}
	return strings.Join(texts, ", ")
}

// readLimits reads the room of each limit, and what was used of it.
func (x *explaining) readLimits(c *Call) error {
	if len(c.limits) == 0 {
		return nil
	}
	if err := c.readRooms(); err != nil {
		return err
	}
	used, err := usage.Limits(c.request.Context(), c.gate.Policy, c.store, usage.Query{Account: c.grant.Account, Key: x.Question.Key, Now: c.began}, c.limits)
	if err != nil {
		return err
	}
	for i, limit := range c.limits {
		x.Limits = append(x.Limits, api.ExplainedLimit{
			Endpoint: limit.Endpoint, Period: limit.Period.String(), Limit: limit.Max, Of: refusal.Of(limit),
			Used: used[i].Used, Remaining: c.rooms[i].Remaining, ResetsAt: used[i].ResetsAt,
		})
	}
	return nil
}

func (x *explaining) passed(step, message string) {
	x.Steps = append(x.Steps, api.ExplainedStep{Step: step, OK: true, Message: message})
}

func (x *explaining) admitted(message string) (api.Explanation, error) {
	x.passed("proxy", message)
	x.Admitted, x.Passes, x.Message = true, true, message
	return x.Explanation, nil
}

func (x *explaining) refused(step string, f *refusal.Refusal) (api.Explanation, error) {
	x.Steps = append(x.Steps, api.ExplainedStep{Step: step, Message: f.Message})
	x.Status, x.Code, x.Message = &f.Status, &f.Code, f.Message
	if f.RetryAfter > 0 {
		x.RetryAfter = &f.RetryAfter
	}
	if !x.gate.enforces(nil) {
		if x.Passes = !x.final && f != refusal.InvalidToken; x.Passes {
			x.Message += " The mode is shadow: the request passes."
		} else {
			x.Message += " Mode shadow also refuses the request."
		}
	}
	return x.Explanation, nil
}
