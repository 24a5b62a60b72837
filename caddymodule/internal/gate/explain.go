package gate

import (
	"bufio"
	"cmp"
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
	call *Call
	// always tells that mode shadow refuses the request too.
	always bool
	api.Explanation
}

// Explain returns what Serve would answer, step by step. It assumes that
// the headers and the body are valid, and counts, records and logs nothing.
func (g *Gate) Explain(ctx context.Context, q Question) (api.Explanation, error) {
	r, err := read(ctx, q)
	if err != nil {
		return api.Explanation{}, err
	}
	x := &explaining{Question: q}
	x.Request = api.ExplainedRequest{Method: q.Method, Target: q.Target}
	x.Mode, x.Steps, x.Limits = string(g.Policy.Mode), []api.ExplainedStep{}, []api.ExplainedLimit{}
	if q.Account != nil {
		x.Explanation.Account, x.Plan = q.Account.ID, q.Account.Plan
	}
	if q.Key != nil {
		x.Explanation.Key = q.Key.ID
	}
	to := g.route(r, r.RequestURI)
	x.always = to.always
	refusal := to.refusal
	if refusal == refuseBadPath || refusal != nil && isTunnel(q.Method) {
		return x.refused("path", refusal)
	}
	x.passed("path", "There is one way to read the path.")
	x.passed("headers", "The gate removes headers that clients must not set.")
	switch {
	case refusal != nil:
		return x.refused("route", refusal)
	case to.Login:
		x.passed("route", "A login. It needs no token; the limits of login attempts apply.")
		return x.admitted("If the limits of login attempts allow it, the request passes to the service. The service checks the password.")
	case to.Endpoint == nil:
		x.passed("route", "An open path: no login, no endpoint, and not below a guard.")
		return x.admitted("The request passes to the service. An open path needs no token.")
	}
	x.passed("route", "The endpoint "+to.Endpoint.Name+".")
	return g.explainCall(r, to.Endpoint, x)
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

// explainCall is Gate.endpoint for a known key.
func (g *Gate) explainCall(r *http.Request, e *policy.Endpoint, x *explaining) (api.Explanation, error) {
	db, err := g.Store()
	if err != nil {
		return api.Explanation{}, err
	}
	x.always = x.always || e.Usage
	now := g.Now()
	if refusal := x.checkToken(g, r, now); refusal != nil {
		return x.refused("token", refusal)
	}
	x.passed("token", "The key is live, and the account is not disabled.")
	x.call = &Call{
		entitlement: &g.entitlements[len(g.Policy.Plans)][e.Index], grant: x.grant(g.Policy),
		store: db, request: r, began: now, path: r.URL.Path,
	}
	if step, refusal := x.checkKey(); refusal != nil {
		return x.refused(step, refusal)
	}
	if err := x.readLimits(); err != nil {
		return api.Explanation{}, err
	}
	step, refusal := x.checkLimits()
	x.showRefusing()
	if refusal != nil {
		return x.refused(step, refusal)
	}
	if e.Usage {
		return x.admitted("The gate answers with the usage of the account.")
	}
	return x.admitted("The request passes to the service.")
}

// checkToken is credentialOf and Store.Grant for a known key.
func (x *explaining) checkToken(g *Gate, r *http.Request, now time.Time) *Refusal {
	refusal := checkQuery(r.URL.RawQuery)
	if x.Question.Account == nil {
		return cmp.Or(refusal, g.unauthenticated)
	}
	grants := !x.Question.Account.Disabled && (x.Question.Key == nil || x.Question.Key.Live(now))
	switch {
	case refusal == refuseRequest && (grants || x.always || !x.isShadow()):
		return refusal
	case !grants:
		return refuseInvalidToken
	}
	return nil
}

// isShadow tells whether the mode is shadow.
func (x *explaining) isShadow() bool { return x.Mode == string(policy.Shadow) }

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

// checkKey checks address and entitlement.
func (x *explaining) checkKey() (step string, refusal *Refusal) {
	own := x.call.grant.Restriction
	switch {
	case own == nil || len(own.Addresses) == 0:
		x.passed("address", "The key may be used from any address.")
	case !x.From.IsValid():
		x.passed("address", fmt.Sprintf("This depends on the address of the client, which is not given. The key may be used from %s.", list(own.Addresses)))
	default:
		if refusal = x.call.checkFrom(x.From.Unmap().WithZone("")); refusal != nil {
			return "address", refusal
		}
		x.passed("address", "The key may be used from "+x.From.String()+".")
	}
	if refusal = x.call.entitle(x.call.request); refusal != nil {
		return "entitlement", refusal
	}
	x.passed("entitlement", "The plan has the endpoint, and the key has the ability "+x.call.endpoint.Ability+".")
	return "", nil
}

func list(networks []netip.Prefix) string {
	texts := make([]string, len(networks))
	for i, network := range networks {
		texts[i] = network.String()
	}
	return strings.Join(texts, ", ")
}

// readLimits reads the room of each limit, and what was used of it.
func (x *explaining) readLimits() error {
	c := x.call
	if len(c.limits) == 0 {
		return nil
	}
	rooms := c.newRooms()
	if err := c.store.Rooms(c.request.Context(), c.counted(), c.limits, rooms); err != nil {
		return err
	}
	c.rooms = rooms
	used, err := usage.Limits(c.request.Context(), c.gate.Policy, c.store, usage.Query{Account: c.grant.Account, Key: x.Question.Key, Now: c.began}, c.limits)
	if err != nil {
		return err
	}
	for i, limit := range c.limits {
		shown := api.ExplainedLimit{
			Endpoint: limit.Endpoint, Period: limit.Period.String(), Limit: limit.Max, Of: "account",
			Used: used[i].Used, Remaining: rooms[i].Remaining, ResetsAt: used[i].ResetsAt,
		}
		if limit.OfKey {
			shown.Of = "key"
		}
		x.Limits = append(x.Limits, shown)
	}
	return nil
}

// checkLimits is price and take. As in price, a call whose body has the cost
// is refused without its body if no limit has room for 1.
func (x *explaining) checkLimits() (step string, refusal *Refusal) {
	c := x.call
	if c.cost = c.endpoint.Cost; c.endpoint.CostMember != "" {
		if c.cost = 1; c.exceeds() {
			return "quota", c.exceeded()
		}
		c.cost = max(1, x.Cost)
	}
	if refusal := c.checkCost(); refusal != nil {
		return "cost", refusal
	}
	x.passed("cost", "The call costs "+strconv.FormatInt(c.cost, 10)+".")
	if c.exceeds() {
		return "quota", c.exceeded()
	}
	x.passed("quota", "Each limit has room for the call.")
	return "", nil
}

// exceeds tells whether a limit has no room for the cost of the call.
func (c *Call) exceeds() bool {
	return slices.ContainsFunc(c.rooms, func(room store.Room) bool { return room.Remaining < c.cost })
}

// showRefusing marks the limits that have no room for the call.
func (x *explaining) showRefusing() {
	for i := range x.Limits {
		x.Limits[i].Refuses = x.Limits[i].Remaining < x.call.cost
	}
}

func (x *explaining) passed(step, message string) {
	x.Steps = append(x.Steps, api.ExplainedStep{Step: step, OK: true, Message: message})
}

func (x *explaining) admitted(message string) (api.Explanation, error) {
	x.passed("proxy", message)
	x.Admitted, x.Passes, x.Message = true, true, message
	return x.Explanation, nil
}

func (x *explaining) refused(step string, f *Refusal) (api.Explanation, error) {
	x.Steps = append(x.Steps, api.ExplainedStep{Step: step, Message: f.Message})
	x.Status, x.Code, x.Message = &f.Status, &f.Code, f.Message
	for _, field := range f.header {
		if field.name != "Retry-After" {
			continue
		}
		seconds, err := strconv.ParseInt(field.value, 10, 64)
		if err != nil {
			return api.Explanation{}, fmt.Errorf("reading Retry-After: %w", err)
		}
		x.RetryAfter = &seconds
	}
	if x.isShadow() {
		if x.Passes = !x.always && f != refuseInvalidToken; x.Passes {
			x.Message += " The mode is shadow: the request passes."
		} else {
			x.Message += " Mode shadow also refuses the request."
		}
	}
	return x.Explanation, nil
}
