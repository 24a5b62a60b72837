package policy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// noAccess marks an endpoint that a plan does not list.
const noAccess = -1

// maxEffective bounds how many sets of abilities a plan caches. Real
// accounts use a handful.
const maxEffective = 1024

// Plan is the daily limits of its accounts.
type Plan struct {
	Name string
	// Index is the plan's position in Policy.Plans.
	Index int
	// Abilities lists the abilities of the plan's endpoints, sorted.
	Abilities []string

	limits    []int64  // by Endpoint.Index; noAccess where not listed
	abilities []string // by Endpoint.Index
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
	p := &Plan{Name: c.Name, limits: make([]int64, len(endpoints)), abilities: make([]string, len(endpoints))}
	p.effective.Store(&map[string]*Effective{})
	var errs []error
	known := make(map[string]bool, len(endpoints))
	for i, e := range endpoints {
		known[e.Name] = true
		p.abilities[i] = e.Ability
		limit, listed := c.Limits[e.Name]
		if !listed {
			p.limits[i] = noAccess
			continue
		}
		if err := checkLimit(limit); err != nil {
			errs = append(errs, &Error{"plan " + c.Name + " " + e.Name, err})
		}
		p.limits[i] = int64(limit)
		p.Abilities = append(p.Abilities, e.Ability)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Limits)) {
		if !known[name] && !slices.Contains(declared, name) {
			errs = append(errs, mistake("plan "+c.Name+" "+name, "there is no endpoint %q", name))
		}
	}
	slices.Sort(p.Abilities)
	p.Abilities = slices.Compact(p.Abilities)
	return p, errors.Join(errs...)
}

// HasAccess tells whether the plan lists any endpoint. A nil plan, which
// the configuration no longer has, lists none.
func (p *Plan) HasAccess() bool { return p != nil && len(p.Abilities) > 0 }

// Limit returns the calls per day to an endpoint (store.Unlimited for no
// bound), and whether the plan lists the endpoint.
func (p *Plan) Limit(e *Endpoint) (limit int64, listed bool) {
	if p == nil {
		return 0, false
	}
	limit = p.limits[e.Index]
	return limit, limit != noAccess
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
