package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/contract"
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
	// unlimited ones. Those of calls at once come last.
	Limits []store.Limit

	listed    []bool          // by Endpoint.Index
	covering  [][]store.Limit // by Endpoint.Index
	limits    [][]store.Limit // covering without unlimited ones
	atOnce    [][]store.Limit // by Endpoint.Index: limits of calls at once
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
		atOnce: make([][]store.Limit, len(endpoints)),
	}
	p.effective.Store(&map[string]*Effective{})
	listed := c.endpoints()
	err := errors.Join(checkDeclared(c.Name, listed, declared), p.addLimits(c, declared))
	if err == nil && len(listed) == 0 && len(c.MoreLimits)+len(c.Concurrent) > 0 {
		err = mistake("plan "+c.Name, "it opens no endpoint: limits of all endpoints together give no access. Add each endpoint, with unlimited if it has no limit of its own")
	}
	for i, e := range endpoints {
		p.abilities[i] = e.Ability
		if p.listed[i] = slices.Contains(listed, e.Name); !p.listed[i] {
			continue
		}
		p.Abilities = append(p.Abilities, e.Ability)
		for _, limit := range p.Limits { // a plan can have one for each of a thousand endpoints
			switch {
			case !e.Covered(limit):
			case limit.Period == store.Concurrent:
				p.atOnce[i] = append(p.atOnce[i], limit)
			default:
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
	for _, l := range c.Concurrent {
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
	for _, limit := range c.Concurrent {
		errs = append(errs, p.addConcurrent(limit))
	}
	return errors.Join(errs...)
}

func (p *Plan) addConcurrent(c ConcurrentConfig) error {
	subject := "plan " + p.Name + " " + c.Endpoint + " " + store.Concurrent.String()
	limit := store.Limit{Endpoint: c.Endpoint, Period: store.Concurrent, Max: c.Limit, Calls: true}
	switch {
	case c.Limit < 1 || c.Limit > contract.MaxConcurrent:
		return mistake(subject, "limit %d is not from 1 to 1,000,000", c.Limit)
	case slices.ContainsFunc(p.Limits, limit.Same):
		return mistake(subject, "duplicate limit of %q of calls at once", c.Endpoint)
	}
	p.Limits = append(p.Limits, limit)
	return nil
}

func (p *Plan) addLimit(c LimitConfig) error {
	subject, name := "plan "+p.Name+" "+c.Endpoint, cmp.Or(c.Period, store.Day.String())
	period, valid := store.ParsePeriod(name)
	if period != store.Day || c.Calls {
		subject += " " + name
	}
	if c.Calls {
		subject += " calls"
	}
	limit := store.Limit{Endpoint: c.Endpoint, Period: period, Max: int64(c.Limit), Calls: c.Calls}
	if c.Limit == noLimit {
		return mistake(subject, "limit is missing: use a number from 0 to 10^15 or \"unlimited\"")
	}
	if !valid {
		return mistake(subject, "invalid period %q: use %s", name, strings.Join(store.Periods, ", "))
	}
	if slices.ContainsFunc(p.Limits, limit.Same) {
		return mistake(subject, "duplicate limit of %q for each %s", c.Endpoint, name)
	}
	err := c.setSoft(&limit)
	p.Limits = append(p.Limits, limit)
	if err = cmp.Or(err, CheckLimit(limit)); err != nil {
		return &Error{Subject: subject, Err: err}
	}
	return nil
}

// setSoft makes a limit soft if it has a ceiling.
func (c *LimitConfig) setSoft(l *store.Limit) error {
	switch {
	case c.Soft == 0:
		return nil
	case c.Calls:
		return errors.New("both soft and calls: use one of them, overage is the cost of calls")
	case l.Period.IsPace() || l.Period == store.Total:
		return fmt.Errorf("a soft limit for each %s: use day, week or month", l.Period)
	case l.Max == store.Unlimited:
		return errors.New("soft with unlimited: write the number above which calls are overage")
	case c.Soft <= l.Max:
		return fmt.Errorf("the ceiling %d is not above the limit %d", c.Soft, l.Max)
	}
	l.Soft, l.Included, l.Max = true, l.Max, c.Soft
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
// the limit with the same endpoint and period, or comes after the others. A total
// has its top-ups. The result has no unlimited limits. Callers must not change it.
func (p *Plan) LimitsOf(e *Endpoint, terms *store.Terms, now time.Time) []store.Limit {
	if terms == nil || len(terms.Overrides)+len(terms.Prepaid) == 0 {
		return p.limits[e.Index]
	}
	limits := slices.Clone(p.covering[e.Index])
	for i := range terms.Overrides {
		o := &terms.Overrides[i]
		if !o.Live(now) || !e.Covered(o.Limit) {
			continue
		}
		if at := slices.IndexFunc(limits, o.Same); at >= 0 {
			limits[at] = o.Limit
		} else {
			limits = append(limits, o.Limit)
		}
	}
	for i := range limits {
		if l := &limits[i]; l.Period == store.Total && !l.Calls {
			l.Max = terms.PrepaidOf(l.Endpoint).Max(l.Max)
		}
	}
	return slices.DeleteFunc(limits, unlimited)
}

// AtOnce returns the limits of the calls to an endpoint of the plan that run at
// once. Overrides do not replace them. Callers must not change the result.
func (p *Plan) AtOnce(e *Endpoint) []store.Limit { return p.atOnce[e.Index] }

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
