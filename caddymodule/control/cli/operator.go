package cli

import (
	"context"
	"os/user"
	"regexp"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// actors has the ids that a gate accepts.
var actors = regexp.MustCompile(`^[ -~]+$`)

// withOperator names the user of the operating system for the audit log. A
// name that is unknown, or that a gate would refuse, is not worth a failure.
func withOperator(ctx context.Context) context.Context {
	operator, err := user.Current()
	if err != nil {
		return ctx
	}
	name := strings.TrimSpace(operator.Username)
	if len(name) > api.MaxActor || !actors.MatchString(name) {
		return ctx
	}
	return client.WithActor(ctx, name)
}
