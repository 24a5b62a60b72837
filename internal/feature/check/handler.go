// Package check tells what accounts lose by a configuration: the command before it
// is loaded, and the log of the gate when it is.
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
