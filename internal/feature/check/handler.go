// Package check tells what accounts lose by a configuration, before it is loaded.
package check

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
)

// Serve adds the operation.
func Serve(s *admin.Server) {
	admin.Handle(s, api.ShowCensus, func(ctx context.Context, with *admin.Session, _ *api.None) (api.Census, error) {
		return Census(ctx, with.Policy, with.Book, with.Now)
	})
}
