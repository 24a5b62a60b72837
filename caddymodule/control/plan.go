package control

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// registerPlans adds an operation that needs no store, so it works while the
// store fails. It is refused while the gate starts: the configuration may
// still fail.
func (s *server) registerPlans(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-plans", Method: http.MethodGet, Path: "/tollgate/plans", Tags: []string{"plans"},
		Summary:     "Show the plans, the endpoints and the time zone that the gate is configured with",
		Description: "Only the configuration changes them, not this API.",
	}), func(ctx context.Context, _ *struct{}) (*reply[api.Plans], error) {
		if _, err := s.backend.Store(); errors.Is(err, store.ErrOpening) {
			return nil, s.refuse(ctx, err)
		}
		return &reply[api.Plans]{showPlans(s.backend.Policy())}, nil
	})
}

func showPlans(p *policy.Policy) api.Plans {
	shown := api.Plans{Plans: []api.Plan{}, Endpoints: []api.Endpoint{}, Timezone: p.Calendar.Zone()}
	for _, e := range p.Endpoints {
		shown.Endpoints = append(shown.Endpoints, api.Endpoint{Name: e.Name, Method: e.Method, Path: e.Path, Ability: e.Ability})
	}
	for _, plan := range p.Plans {
		limits := make(map[string]*int64, len(p.Endpoints))
		for _, e := range p.Endpoints {
			limit, listed := plan.Limit(e)
			if !listed {
				continue
			}
			limits[e.Name] = nil
			if limit != store.Unlimited {
				limits[e.Name] = new(limit)
			}
		}
		shown.Plans = append(shown.Plans, api.Plan{Name: plan.Name, Limits: limits})
	}
	return shown
}
