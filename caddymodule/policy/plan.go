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

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
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
	// Limits has all limits in the order of the configuration, unlimited
	// ones too.
	Limits []store.Limit

	listed    []bool          // by Endpoint.Index
	limits    [][]store.Limit // by Endpoint.Index: those that cover it, without unlimited ones
	abilities []string        // by Endpoint.Index
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
		Name: c.Name, listed: make([]bool, len(endpoints)), limits: make([][]store.Limit, len(endpoints)),
		abilities: make([]string, len(endpoints)),
	}
	p.effective.Store(&map[string]*Effective{})
	err := p.addLimits(c, declared)
	for i, e := range endpoints {
		p.abilities[i] = e.Ability
		if _, p.listed[i] = c.Limits[e.Name]; !p.listed[i] {
			p.listed[i] = slices.ContainsFunc(c.MoreLimits, func(l LimitConfig) bool { return l.Endpoint == e.Name })
		}
		if !p.listed[i] {
			continue
		}
		p.Abilities = append(p.Abilities, e.Ability)
		for _, limit := range p.Limits {
			if e.Covered(limit) && limit.Max != store.Unlimited {
				p.limits[i] = append(p.limits[i], limit)
			}
		}
	}
	slices.Sort(p.Abilities)
	p.Abilities = slices.Compact(p.Abilities)
	return p, err
}

// addLimits adds the limits of the configuration in their order: those of
// Limits, which has no order of its own, come in the order of the endpoints.
func (p *Plan) addLimits(c PlanConfig, declared []string) error {
	var errs []error
	known := func(endpoint string) bool { return slices.Contains(declared, endpoint) }
	for _, name := range slices.SortedFunc(maps.Keys(c.Limits), byPosition(declared)) {
		limit := c.Limits[name]
		if !known(name) {
			errs = append(errs, mistake("plan "+c.Name+" "+name, "there is no endpoint %q", name))
		} else if limit != nil {
			errs = append(errs, p.addLimit(store.Limit{Endpoint: name, Period: store.Day, Max: int64(*limit)}))
		}
	}
	for _, l := range c.MoreLimits {
		name := or(l.Period, store.Day.String())
		period, valid := store.ParsePeriod(name)
		subject := "plan " + c.Name + " " + l.Endpoint
		switch {
		case l.Endpoint != store.All && !known(l.Endpoint):
			errs = append(errs, mistake(subject, "there is no endpoint %q", l.Endpoint))
		case !valid:
			errs = append(errs, mistake(subject, "invalid period %q: use %s", name, strings.Join(store.Periods, ", ")))
		default:
			errs = append(errs, p.addLimit(store.Limit{Endpoint: l.Endpoint, Period: period, Max: int64(l.Limit)}))
		}
	}
	return errors.Join(errs...)
}

// byPosition sorts the names of a list by their position, and others before
// them by themselves.
func byPosition(list []string) func(a, b string) int {
	return func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(list, a), slices.Index(list, b)), cmp.Compare(a, b))
	}
}

func (p *Plan) addLimit(l store.Limit) error {
	subject := "plan " + p.Name + " " + l.Endpoint
	if l.Period != store.Day {
		subject += " " + l.Period.String()
	}
	if slices.ContainsFunc(p.Limits, l.Same) {
		return mistake(subject, "duplicate limit of %s for each %s", l.Endpoint, l.Period)
	}
	p.Limits = append(p.Limits, l)
	if err := CheckLimit(l); err != nil {
		return &Error{subject, err}
	}
	return nil
}

// HasAccess tells whether the plan lists any endpoint. A nil plan, which
// the configuration no longer has, lists none.
func (p *Plan) HasAccess() bool { return p != nil && len(p.Abilities) > 0 }

// Lists tells whether the plan gives access to an endpoint.
func (p *Plan) Lists(e *Endpoint) bool { return p != nil && p.listed[e.Index] }

// LimitsOf returns the limits that cover the calls to an endpoint of the plan,
// in the order of the configuration. Overrides that apply at now replace the
// limit with the same endpoint and period, or come after the others. The
// result has no unlimited ones. Do not change it.
func (p *Plan) LimitsOf(e *Endpoint, overrides []store.Override, now time.Time) []store.Limit {
	limits := p.limits[e.Index]
	if len(overrides) == 0 {
		return limits
	}
	limits = slices.Clone(limits)
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
	return slices.DeleteFunc(limits, func(l store.Limit) bool { return l.Max == store.Unlimited })
}

// Effective returns the abilities that a token with these abilities
// (sorted, separated by one space) has on this plan. Each call asks again,
// so that a downgrade applies to the next call. It does not allocate for a
// set that is cached.
func (p *Plan) Effective(abilities string) *Effective {
	if e := (*p.effective.Load())[abilities]; e != nil {
		return e
	}
	return p.intersect(abilities)
}

func (p *Plan) intersect(abilities string) *Effective {
	held := strings.Fields(abilities)
	var common []string
	for _, a := range held {
		if slices.Contains(p.Abilities, a) {
			common = append(common, a)
		}
	}
	e := &Effective{Abilities: strings.Join(common, " "), endpoints: make([]bool, len(p.abilities))}
	for i, a := range p.abilities {
		e.endpoints[i] = slices.Contains(held, a)
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
