package admin

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// servePlans adds an operation that needs no store, so it works while the
// store fails. It is refused while the gate starts: the configuration may
// still fail.
func (s *Server) servePlans() {
	huma.Register(s.router, operation(api.ListPlans), func(ctx context.Context, _ *struct{}) (*reply[api.Plans], error) {
		if _, err := s.Backend.Book(); errors.Is(err, store.ErrOpening) {
			return nil, s.Refuse(ctx, err)
		}
		return &reply[api.Plans]{showPlans(s.Backend.Policy(), s.Backend.Now())}, nil
	})
}

func showPlans(p *policy.Policy, now time.Time) api.Plans {
	shown := api.Plans{Plans: []api.Plan{}, Endpoints: []api.Endpoint{}, Timezone: p.Calendar.Zone(), Day: p.Calendar.At(now).Day.String()}
	for _, e := range p.Endpoints {
		first := e.Patterns[0]
		endpoint := api.Endpoint{Name: e.Name, Method: first.Method, Path: first.Path, Ability: e.Ability, Cost: e.Cost, Unit: e.Unit}
		for _, pattern := range e.Patterns {
			endpoint.Patterns = append(endpoint.Patterns, pattern.String())
		}
		if e.JSONRPC != nil {
			endpoint.JSONRPC = e.JSONRPC.String()
		}
		if from := e.Answer; from != nil {
			endpoint.CostAnswer = &api.CostAnswer{Header: from.Header, Members: from.Members, Bound: from.Bound}
		}
		if e.CostMember != "" {
			endpoint.CostMember = &e.CostMember
		}
		shown.Endpoints = append(shown.Endpoints, endpoint)
	}
	for _, plan := range p.Plans {
		shown.Plans = append(shown.Plans, showPlan(plan, p.Endpoints))
	}
	return shown
}

// showPlan omits unlimited limits other than those of a day: they have no
// effect.
func showPlan(plan *policy.Plan, endpoints []*policy.Endpoint) api.Plan {
	shown := api.Plan{Name: plan.Name, Limits: map[string]*int64{}, MoreLimits: []api.PlanLimit{}}
	for _, e := range endpoints {
		if plan.Lists(e) {
			shown.Limits[e.Name] = nil
		}
	}
	for _, limit := range plan.Limits {
		switch {
		case limit.Max == store.Unlimited:
		case limit.Period == store.Day && limit.Endpoint != store.All && !limit.Soft && !limit.Calls:
			shown.Limits[limit.Endpoint] = new(limit.Max)
		default:
			more := api.PlanLimit{Endpoint: limit.Endpoint, Period: limit.Period.String(), Limit: limit.Number(), Calls: limit.Calls}
			if limit.Soft {
				more.Soft = limit.Max
			}
			shown.MoreLimits = append(shown.MoreLimits, more)
		}
	}
	return shown
}
