package explain

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

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
	// Cost is the number of elements in the body, for endpoints with cost json, or
	// what the body makes the call reserve. 0 means 1.
	Cost int64
}

// Explain returns what a gate with these options would answer, step by step. It
// assumes that the headers and the body are valid, and counts, records and logs
// nothing.
//
// A silent gate decides as the gate does, with a token of its own that it takes
// for the key of the question.
func Explain(ctx context.Context, o gate.Options, q Question) (api.Explanation, error) {
	r, err := q.request(ctx)
	if err != nil {
		return api.Explanation{}, err
	}
	s := &silent{question: q, policy: o.Policy}
	open := o.Store
	o.Server, o.Reporter, o.Logger = s, s, zap.NewNop()
	o.Store = func() (gate.Store, error) {
		s.Store, s.err = open()
		return s, s.err
	}
	d := gate.New(o).Foresee(r, q.Cost)
	if s.err != nil {
		return api.Explanation{}, s.err
	}
	x := api.Explanation{
		Request: api.ExplainedRequest{Method: q.Method, Target: q.Target}, Mode: string(o.Policy.Mode), Steps: steps(&q, &d), Passes: d.Passes,
	}
	if x.Account, x.Plan = d.Account, d.Plan; q.Account != nil {
		x.Account, x.Plan = q.Account.ID, q.Account.Plan
	}
	if q.Key != nil {
		x.Key = q.Key.ID
	}
	x.Limits = limits(s, &d)
	last := &x.Steps[len(x.Steps)-1]
	x.Admitted, x.Message = last.OK, last.Message
	if f := d.Refusal; f != nil {
		x.Status, x.Code, x.Message, last.Message = &f.Status, &f.Code, f.Message, cmp.Or(why(&q, f), f.Message)
		if f.RetryAfter > 0 {
			x.RetryAfter = &f.RetryAfter
		}
		if d.Passes {
			x.Message += " The mode is shadow: the request passes."
		} else if o.Policy.Mode == policy.Shadow {
			x.Message += " Mode shadow also refuses the request."
		}
	}
	return x, nil
}

// steps returns the steps up to the one that refuses the request.
func steps(q *Question, d *gate.Foreseen) []api.ExplainedStep {
	path := "There is one way to read the path."
	if d.Special {
		path = "Each way to read the path leads to the same route."
	}
	var steps []api.ExplainedStep
	passed := func(step, message string) {
		steps = append(steps, api.ExplainedStep{Step: step, OK: true, Message: message})
	}
	passed("path", path)
	passed("headers", "The gate removes headers that clients must not set.")
	e, pass := d.Route.Endpoint, "The request passes to the service."
	switch {
	case d.Route.Login:
		passed("route", "A login. It needs no token; the limits of login attempts apply.")
		pass = "If the limits of login attempts allow it, the request passes to the service. The service checks the password."
	case e == nil:
		passed("route", "An open path: no login, no endpoint, and not below a guard.")
		pass += " An open path needs no token."
	default:
		endpoint := "The endpoint " + e.Name + "."
		if d.Route.Operations != nil {
			endpoint += " A request with another JSON-RPC method or tool can have another endpoint."
		}
		passed("route", endpoint)
		if d.Anonymous {
			address := "."
			if !q.From.IsValid() {
				address = ", which is not given: its limits are not shown."
			}
			passed("token", "The endpoint needs no key: the call is one of the account "+d.Account+", and of the address of the client"+address)
			passed("entitlement", "The plan has the endpoint.")
		} else {
			passed("token", "The key is live, and the account is not disabled.")
			passed("address", addressMessage(q))
			passed("entitlement", "The plan has the endpoint, and the key has the ability "+e.Ability+".")
		}
		cost := "The call costs " + strconv.FormatInt(d.Cost, 10) + "."
		if e.Answer != nil {
			cost = "The call reserves " + strconv.FormatInt(d.Cost, 10) + ". What it costs is told by " + e.Answer.Source() + " of the answer."
		}
		passed("cost", cost)
		passed("quota", "Each limit has room for the call.")
		if e.Usage {
			pass = "The gate answers with the usage of the account."
		}
	}
	passed("proxy", pass)
	if at := slices.IndexFunc(steps, func(s api.ExplainedStep) bool { return s.Step == d.Step }); at >= 0 {
		steps[at].OK = false
		return steps[:at+1]
	}
	return steps
}

// why is the reason of an invalid token in words, or "". Clients do not see it.
func why(q *Question, f *refusal.Refusal) string {
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
func addressMessage(q *Question) string {
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

// limits returns what is left and what was used of each limit.
func limits(s *silent, d *gate.Foreseen) []api.CallLimit {
	shown := []api.CallLimit{}
	for i := range d.Limits {
		limit := &d.Limits[i]
		if limit.OfAddress && !s.question.From.IsValid() {
			continue
		}
		shown = append(shown, admin.ShowLimit(s.policy, limit, &d.Rooms[i], d.Cost, d.At, d.Month))
	}
	return shown
}
