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

// maxEffective bounds how many distinct sets of abilities a plan keeps
// the intersection of. Real accounts use a handful, which are looked for
// one by one: most differ in length, so that this is faster than to hash.
const (
	maxEffective = 1024
	fewEffective = 8
)

// Plan is what accounts on it may do in a day.
type Plan struct {
	Name string
	// Index is the plan's place in Policy.Plans.
	Index int
	// Abilities lists what the plan entitles to, sorted.
	Abilities []string

	limits    []int64 // by Endpoint.Index; noAccess where not listed
	abilities []string
	mu        sync.Mutex // serialises writers of effective
	effective atomic.Pointer[effectives]
}

// effectives are the sets of abilities that a plan has met.
type effectives struct {
	few []*Effective          // the first
	all map[string]*Effective // the others
}

// Effective is what a token and a plan have in common.
type Effective struct {
	// Abilities is sorted and separated by spaces.
	Abilities string

	carried   string // by the token
	endpoints []bool // by Endpoint.Index: does the token carry its ability
}

// Includes tells whether the token carries the endpoint's ability.
func (e *Effective) Includes(endpoint *Endpoint) bool { return e.endpoints[endpoint.Index] }

// newPlan compiles a plan. An endpoint that is declared and has a mistake
// of its own is not among the endpoints, and no mistake of the plan.
func newPlan(c PlanConfig, endpoints []*Endpoint, declared []string) (*Plan, error) {
	p := &Plan{Name: c.Name, limits: make([]int64, len(endpoints)), abilities: make([]string, len(endpoints))}
	p.effective.Store(&effectives{})
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
// is one that no longer exists, lists none.
func (p *Plan) HasAccess() bool { return p != nil && len(p.Abilities) > 0 }

// Limit returns the calls per day that the plan gives to an endpoint
// (store.Unlimited for no bound), and whether it lists it at all.
func (p *Plan) Limit(e *Endpoint) (limit int64, listed bool) {
	if p == nil {
		return 0, false
	}
	limit = p.limits[e.Index]
	return limit, limit != noAccess
}

// Effective returns what a token with these abilities (sorted, separated
// by one space) may do on this plan. A downgrade acts on the next call
// because this is asked at every call. It does not allocate for a set
// that it has seen.
func (p *Plan) Effective(abilities string) *Effective {
	if e := p.effective.Load().find(abilities); e != nil {
		return e
	}
	return p.intersect(abilities)
}

func (s *effectives) find(abilities string) *Effective {
	for _, e := range s.few {
		if e.carried == abilities {
			return e
		}
	}
	return s.all[abilities]
}

func (p *Plan) intersect(abilities string) *Effective {
	carried := strings.Fields(abilities)
	var common []string
	for _, a := range carried {
		if slices.Contains(p.Abilities, a) {
			common = append(common, a)
		}
	}
	e := &Effective{Abilities: strings.Join(common, " "), carried: strings.Clone(abilities), endpoints: make([]bool, len(p.abilities))}
	for i, a := range p.abilities {
		e.endpoints[i] = slices.Contains(carried, a)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.effective.Load()
	switch {
	case seen.find(abilities) != nil: // by somebody else meanwhile
	case len(seen.few) < fewEffective:
		p.effective.Store(&effectives{few: append(slices.Clone(seen.few), e)})
	case len(seen.few)+len(seen.all) < maxEffective:
		next := &effectives{few: seen.few, all: map[string]*Effective{e.carried: e}}
		maps.Copy(next.all, seen.all)
		p.effective.Store(next)
	}
	return e
}
