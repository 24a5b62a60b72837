package control

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/usage"
)

func (s *server) registerCensus(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "show-census", Method: http.MethodGet, Path: "/tollgate/census", Tags: []string{"plans"},
		Summary:     "Show what all accounts need of a configuration",
		Description: "The names of plans, abilities, endpoints and the time zone that the store has. It reads all accounts. The command caddy tollgate check compares them with a configuration.",
	}), answer(s, func(ctx context.Context, with *session, _ *struct{}) (api.Census, error) {
		return usage.Census(ctx, with.policy, with.book, with.now)
	}))
}
