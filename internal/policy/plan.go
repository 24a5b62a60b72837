package policy

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// maxEffective bounds how many sets of abilities a plan caches. Real
// accounts use a handful.
const maxEffective = 1024

// Plan is the limits of its accounts.
type Plan struct {
	Name string
	// Index is the plan's position in Policy.Plans.
	Index int
	// Abilities lists the abilities of the plan's endpoints, sorted.
	Abilities []string
	// All is Abilities, separated by spaces.
	All string
	// Word is what new tokens of the plan's accounts begin with.
	Word token.Word
	// Limits has all limits in the order of the configuration, including
	// unlimited ones.
	Limits []store.Limit

	listed    []bool          // by Endpoint.Index
	covering  [][]store.Limit // by Endpoint.Index
	limits    [][]store.Limit // covering without unlimited ones
	abilities []string        // by Endpoint.Index
	older     store.Renames   // of abilities
	mu        sync.Mutex
	effective atomic.Pointer[map[string]*Effective] // by the token's abilities; copied to be changed, under mu
}

// Effective is the abilities that a token and a plan have in common.
type Effective struct {
	// Abilities is sorted and separated by spaces.
	Abilities string

	endpoints []bool // by Endpoint.Index: has the token its ability
}

// Includes tells whether the token has the endpoint's ability.
func (e *Effective) Includes(endpoint *Endpoint) bool { return e.endpoints[endpoint.Index] }

// newPlan compiles a plan. An endpoint with a mistake of its own is declared
// but not among the endpoints: that is no mistake of the plan.
func newPlan(c PlanConfig, endpoints []*Endpoint, declared []string) (*Plan, error) {
	p := &Plan{
		Name: c.Name, listed: make([]bool, len(endpoints)), abilities: make([]string, len(endpoints)),
		covering: make([][]store.Limit, len(endpoints)), limits: make([][]store.Limit, len(endpoints)),
	}
	p.effective.Store(&map[string]*Effective{})
	listed := c.endpoints()
	err := errors.Join(checkDeclared(c.Name, listed, declared), p.addLimits(c, declared))
	if err == nil && len(listed) == 0 && len(c.MoreLimits) > 0 {
		err = mistake("plan "+c.Name, "it opens no endpoint: limits of all endpoints together give no access. Add each endpoint, with unlimited if it has no limit of its own")
	}
	for i, e := range endpoints {
		p.abilities[i] = e.Ability
		if p.listed[i] = slices.Contains(listed, e.Name); !p.listed[i] {
			continue
		}
		p.Abilities = append(p.Abilities, e.Ability)
		for _, limit := range p.Limits { // a plan can have one for each of a thousand endpoints
			if e.Covered(limit) {
				p.covering[i] = append(p.covering[i], limit)
			}
		}
		p.limits[i] = slices.DeleteFunc(slices.Clone(p.covering[i]), unlimited)
	}
	slices.Sort(p.Abilities)
	p.Abilities = slices.Compact(p.Abilities)
	p.All = strings.Join(p.Abilities, " ")
	return p, err
}

// endpoints returns the endpoints that the plan gives access to, sorted.
func (c *PlanConfig) endpoints() []string {
	names := slices.Collect(maps.Keys(c.Limits))
	for _, l := range c.MoreLimits {
		if l.Endpoint != store.All {
			names = append(names, l.Endpoint)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkDeclared refuses endpoints of a plan that are not declared.
func checkDeclared(plan string, endpoints, declared []string) error {
	var errs []error
	for _, name := range endpoints {
		subject := "plan " + plan + " " + name
		switch {
		case name == store.All:
			errs = append(errs, mistake(subject, "invalid endpoint %q: for all endpoints together, write * in a Caddyfile, or more_limits in JSON", name))
		case !slices.Contains(declared, name):
			errs = append(errs, mistake(subject, "there is no endpoint %q: endpoints are %s", name, cmp.Or(strings.Join(declared, ", "), "none")))
		}
	}
	return errors.Join(errs...)
}

// addLimits adds the limits of the configuration in their order: those of
// Limits, which has no order of its own, come in the order of the endpoints.
func (p *Plan) addLimits(c PlanConfig, declared []string) error {
	var errs []error
	for _, name := range declared {
		if limit := c.Limits[name]; limit != nil {
			errs = append(errs, p.addLimit(LimitConfig{Endpoint: name, Limit: *limit}))
		}
	}
	for _, limit := range c.MoreLimits {
		errs = append(errs, p.addLimit(limit))
	}
	return errors.Join(errs...)
}

func (p *Plan) addLimit(c LimitConfig) error {
	subject, name := "plan "+p.Name+" "+c.Endpoint, cmp.Or(c.Period, store.Day.String())
	period, valid := store.ParsePeriod(name)
	if period != store.Day {
		subject += " " + name
	}
	limit := store.Limit{Endpoint: c.Endpoint, Period: period, Max: int64(c.Limit)}
	if c.Limit == noLimit {
		return mistake(subject, "limit is missing: use a number from 0 to 10^15 or \"unlimited\"")
	}
	if !valid {
		return mistake(subject, "invalid period %q: use %s", name, strings.Join(store.Periods, ", "))
	}
	if slices.ContainsFunc(p.Limits, limit.Same) {
		return mistake(subject, "duplicate limit of %q for each %s", c.Endpoint, name)
	}
	p.Limits = append(p.Limits, limit)
	if err := CheckLimit(limit); err != nil {
		return &Error{Subject: subject, Err: err}
	}
	return nil
}

func unlimited(l store.Limit) bool { return l.Max == store.Unlimited }

// HasAccess tells whether the plan lists any endpoint. A nil plan, which
// the configuration no longer has, lists none.
func (p *Plan) HasAccess() bool { return p != nil && len(p.Abilities) > 0 }

// Lists tells whether the plan gives access to an endpoint.
func (p *Plan) Lists(e *Endpoint) bool { return p != nil && p.listed[e.Index] }

// LimitsOf returns the limits that cover the calls to an endpoint of the plan,
// in the order of the configuration. An override that applies at now replaces
// the limit with the same endpoint and period, or comes after the others. The
// result has no unlimited limits. Callers must not change it.
func (p *Plan) LimitsOf(e *Endpoint, overrides []store.Override, now time.Time) []store.Limit {
	if len(overrides) == 0 {
		return p.limits[e.Index]
	}
	limits := slices.Clone(p.covering[e.Index])
	for i := range overrides {
		o := &overrides[i]
		if !o.Live(now) || !e.Covered(o.Limit) {
			continue
		}
		if at := slices.IndexFunc(limits, o.Same); at >= 0 {
			limits[at].Max = o.Max
		} else {
			limits = append(limits, o.Limit)
		}
	}
	return slices.DeleteFunc(limits, unlimited)
}

// Effective returns the abilities that a token with these abilities
// (sorted, separated by one space) has on this plan. They can have older names.
// Each call asks again, so that a downgrade applies to the next call. It does
// not allocate for a set that is cached.
func (p *Plan) Effective(abilities string) *Effective {
	if e := (*p.effective.Load())[abilities]; e != nil {
		return e
	}
	return p.intersect(abilities)
}

func (p *Plan) intersect(abilities string) *Effective {
	asked := strings.Fields(abilities)
	for i, a := range asked {
		asked[i] = p.older.Today(a)
	}
	slices.Sort(asked)
	var common []string
	for _, a := range slices.Compact(asked) {
		if slices.Contains(p.Abilities, a) {
			common = append(common, a)
		}
	}
	e := &Effective{Abilities: strings.Join(common, " "), endpoints: make([]bool, len(p.abilities))}
	for i, a := range p.abilities {
		e.endpoints[i] = slices.Contains(asked, a)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	cached := *p.effective.Load()
	if cached[abilities] == nil && len(cached) < maxEffective {
		cached = maps.Clone(cached)
		cached[strings.Clone(abilities)] = e
		p.effective.Store(&cached)
	}
	return e
}
