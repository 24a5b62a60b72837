package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Endpoint is one metered endpoint.
type Endpoint struct {
	Name string
	// ID is the oldest name, under which stores count.
	ID string
	// Patterns lists its routes, at least one.
	Patterns []Pattern
	// JSONRPC says which requests to these routes it takes, nil for all.
	JSONRPC *JSONRPC
	Ability string
	// Index is the endpoint's position in Policy.Endpoints.
	Index int
	// Usage marks the endpoint that the gate answers itself.
	Usage bool
	// Upgrade lets clients switch to another protocol.
	Upgrade bool
	// KeepAuthorization and KeepCookie let these headers go on to the
	// service.
	KeepAuthorization, KeepCookie bool
	// Cost is the cost of a call, at least 1. It does not apply with
	// CostMember. With Answer it is the reservation, and with a Bound only what
	// counts for a missing member.
	Cost int64
	// Unit is what the cost counts, "" for calls.
	Unit string
	// Refund decides which failed calls are given back.
	Refund Refund
	// Errors is how refusals are written.
	Errors Errors
	// Answer tells how the answer tells the cost. It is nil if the cost is known
	// before the call.
	Answer *CostAnswer
	// CostMember is the member of the body whose number of elements is the
	// cost, or "".
	CostMember string
	// CostBody is the maximum size of a body that the gate reads for the cost, in
	// bytes.
	CostBody int64
}

// ReadsBody tells whether the cost, or the reservation, depends on the body of the
// request.
func (e *Endpoint) ReadsBody() bool {
	return e.CostMember != "" || e.Answer != nil && e.Answer.Bound != nil
}

// Pattern is a route of an endpoint: a method, or route.AnyMethod, and a path
// pattern of net/http.ServeMux.
type Pattern struct{ Method, Path string }

// newPattern reads a method and a path, such as "GET /items/{id}".
func newPattern(text string) (p Pattern) {
	p.Method, p.Path, _ = strings.Cut(text, " ")
	return p
}

// String returns the method and the path.
func (p Pattern) String() string { return p.Method + " " + p.Path }

// Takes is what a call does with a limit, as a verb: its answer tells what it costs, or
// the cost is fixed, as in limits of calls.
func (e *Endpoint) Takes(l store.Limit) string {
	if e.Answer != nil && !l.Calls {
		return "reserves"
	}
	return "costs"
}

// Covered tells whether a limit covers the calls to the endpoint. Limits of
// all endpoints do not cover the gate's own one.
func (e *Endpoint) Covered(l store.Limit) bool {
	return l.Endpoint == e.Name || l.Endpoint == store.All && !e.Usage
}

// List returns the list of store.Concurrency that a limit of calls at once bounds.
func (e *Endpoint) List(l store.Limit) string {
	if l.Endpoint == store.All {
		return store.All
	}
	return e.ID
}

// endpoints returns the endpoints of a configuration. The gate's own usage
// endpoint is the last one.
func endpoints(c Config) []EndpointConfig {
	if c.Usage == "" {
		return c.Endpoints
	}
	return append(slices.Clone(c.Endpoints), EndpointConfig{Name: UsageEndpoint, Patterns: []string{c.Usage}})
}

func (p *Policy) addEndpoints(c Config) error {
	all := endpoints(c)
	for _, e := range all {
		for _, text := range e.Patterns {
			if e.JSONRPC != nil {
				p.operations[text] = new(Operations)
			}
		}
	}
	var errs []error
	for i, e := range all {
		usage := c.Usage != "" && i == len(all)-1
		subject := "endpoint " + e.Name
		if usage {
			subject = "usage"
		}
		if err := p.addEndpoint(subject, e, usage); err != nil {
			errs = append(errs, err)
		}
		if err := checkCost(e); err != nil {
			errs = append(errs, &Error{Subject: subject + " cost", Err: err})
		}
		if err := checkJSONRPC(e); err != nil {
			errs = append(errs, &Error{Subject: subject + " jsonrpc", Err: err})
		}
		if added := p.Endpoint(e.Name); added != nil {
			errs = append(errs, added.setKeep(e.Keep), added.setUnit(e.Unit))
			if added.Refund = cmp.Or(e.Refund, p.Refund); e.Refund != "" {
				if err := e.Refund.check(); err != nil {
					errs = append(errs, &Error{Subject: subject + " refund", Err: err})
				}
			}
			if added.Errors = cmp.Or(e.Errors, p.Errors); e.Errors != "" {
				if err := e.Errors.check(); err != nil {
					errs = append(errs, &Error{Subject: subject + " errors", Err: err})
				}
			}
		}
	}
	if len(c.Endpoints) > 0 {
		p.Unit = c.Endpoints[0].Unit
		for _, e := range c.Endpoints {
			if e.Unit != p.Unit {
				p.Unit = ""
			}
		}
	}
	return errors.Join(errs...)
}

// units matches words for what a cost counts.
var units = regexp.MustCompile(`^[a-z]{2,24}$`)

func (e *Endpoint) setUnit(unit string) error {
	if unit != "" && !units.MatchString(unit) {
		return mistake("endpoint "+e.Name+" unit", "%q is not a word of 2 to 24 small letters, such as tokens", unit)
	}
	e.Unit = unit
	return nil
}

// UnitOf returns what a limit of the endpoint's calls counts, "" for calls.
func (p *Policy) UnitOf(e *Endpoint, l *store.Limit) string {
	switch {
	case l.Calls || l.OfAddress:
		return ""
	case l.Endpoint == store.All:
		return p.Unit
	}
	return e.Unit
}

// addEndpoint adds an endpoint, unless it has a mistake.
func (p *Policy) addEndpoint(subject string, e EndpointConfig, usage bool) error {
	ability := cmp.Or(e.Ability, e.Name)
	if err := p.checkEndpoint(e, ability, usage); err != nil {
		return &Error{Subject: subject, Err: err}
	}
	answer, _ := e.CostAnswer.compile() // checkCost says what is wrong
	cost, body := cmp.Or(e.Cost, 1), int64(DefaultCostBody)
	if answer != nil {
		cost = e.CostAnswer.Reserve
		if answer.Bound != nil {
			body = DefaultBoundBody
		}
	}
	endpoint := &Endpoint{
		Name: e.Name, ID: slices.Concat(e.Rename, []string{e.Name})[0], Ability: ability, Index: len(p.Endpoints), Usage: usage, Upgrade: e.Upgrade, JSONRPC: e.JSONRPC,
		Cost: cost, Answer: answer, CostMember: e.CostMember, CostBody: cmp.Or(e.CostBody, body),
	}
	var errs []error
	for _, text := range e.Patterns {
		pattern := newPattern(text)
		endpoint.Patterns = append(endpoint.Patterns, pattern)
		of := subject
		if !usage {
			of += " " + text
		}
		errs = append(errs, p.addOperation(of, pattern, endpoint))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.Endpoints = append(p.Endpoints, endpoint)
	return nil
}

func (p *Policy) checkEndpoint(e EndpointConfig, ability string, usage bool) error {
	switch {
	case !ValidName(e.Name):
		return fmt.Errorf("%q is not a name: a letter, then up to 63 letters, digits, dots, dashes or underscores", e.Name)
	case !ValidName(ability):
		return fmt.Errorf("ability %q is not a name", ability)
	case e.Name == store.All:
		return fmt.Errorf("the name %q is reserved for limits of all endpoints together: use another name", e.Name)
	case e.Name == UsageEndpoint && !usage:
		return fmt.Errorf("the name %q is reserved for the gate's own endpoint: use the option usage", e.Name)
	case e.Name == "token_prefix":
		return fmt.Errorf("the name %q is reserved for the option of a plan: use another name", e.Name)
	case p.Endpoint(e.Name) != nil:
		return errors.New("duplicate endpoint")
	case len(e.Patterns) == 0:
		return errors.New("no route: write a method and a path in patterns, such as \"GET /items/{id}\"")
	case usage && newPattern(e.Patterns[0]).Method != http.MethodGet:
		return fmt.Errorf("the method of usage must be GET, not %q", newPattern(e.Patterns[0]).Method)
	}
	return p.reserveLimitNames(e.Name)
}

// setNames sets the older names of the endpoints. Each name has one meaning.
func (p *Policy) setNames(c Config) error {
	all := endpoints(c)
	owner := map[string]string{}
	for _, e := range all {
		owner[e.Name] = e.Name
	}
	var errs []error
	for _, e := range all {
		subject, own := "endpoint "+e.Name+" rename", e.Ability == "" || e.Ability == e.Name
		for _, old := range e.Rename {
			by := slices.IndexFunc(all, func(other EndpointConfig) bool { return other.Ability == old })
			switch other, taken := owner[old]; {
			case !ValidName(old):
				errs = append(errs, mistake(subject, "%q is not a name: a letter, then up to 63 letters, digits, dots, dashes or underscores", old))
			case old == store.All, old == UsageEndpoint:
				errs = append(errs, mistake(subject, "the name %q is reserved: no endpoint can have had it", old))
			case taken && other == old:
				errs = append(errs, mistake(subject, "there is an endpoint %q: an older name is one that no endpoint has any more", old))
			case taken:
				errs = append(errs, mistake(subject, "duplicate name %q: the endpoint %s has it already", old, other))
			case own && by >= 0:
				errs = append(errs, mistake(subject, "%q is the ability of the endpoint %s: write ability %s there, or ability %s here", old, all[by].Name, e.Name, old))
			}
			owner[old] = e.Name
		}
		if len(e.Rename) == 0 {
			continue
		}
		p.Names.Endpoints.Add(e.Name, e.Rename)
		if own {
			p.Names.Abilities.Add(e.Name, e.Rename)
		}
	}
	return errors.Join(errs...)
}

// setKeep sets the headers that go on to the service.
func (e *Endpoint) setKeep(names []string) error {
	for _, name := range names {
		var kept *bool
		switch http.CanonicalHeaderKey(name) {
		case "Authorization":
			kept = &e.KeepAuthorization
		case "Cookie":
			kept = &e.KeepCookie
		}
		switch {
		case kept == nil:
			return mistake("endpoint "+e.Name+" keep", "%q is neither Authorization nor Cookie: the gate removes no other header of a service", name)
		case *kept:
			return mistake("endpoint "+e.Name+" keep", "duplicate header %q", name)
		}
		*kept = true
	}
	return nil
}

// checkCost checks the cost of an endpoint.
func checkCost(e EndpointConfig) error {
	switch {
	case e.Cost < 0 || e.Cost > MaxCost:
		return fmt.Errorf("cost %d is not from 1 to %d", e.Cost, MaxCost)
	case e.CostAnswer != nil && (e.Cost != 0 || e.CostMember != ""):
		return errors.New("both cost_answer and another cost: use one of them")
	case e.Cost != 0 && e.CostMember != "":
		return errors.New("both cost and cost_member: use one of them")
	case e.CostBody < 0 || e.CostBody > MaxCostBody:
		return fmt.Errorf("cost_body %d is not from 1 to %d bytes", e.CostBody, MaxCostBody)
	}
	answer, err := e.CostAnswer.compile()
	if err != nil {
		return err
	}
	member := e.CostMember
	if answer != nil && answer.Bound != nil {
		member = answer.Bound[0]
	}
	if member == "" {
		if e.CostBody != 0 {
			return errors.New("cost_body requires cost_member or a bound")
		}
		return nil
	}
	for _, text := range e.Patterns {
		if method := newPattern(text).Method; !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method) {
			return fmt.Errorf("the member %q requires the method POST, PUT or PATCH, not %q", member, method)
		}
	}
	return nil
}
