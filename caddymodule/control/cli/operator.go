package cli

import (
	"context"
	"os"
	"os/user"
	"regexp"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// actors has the ids that a gate accepts.
var actors = regexp.MustCompile(`^[ -~]+$`)

// actorVariable is for programs that change the user of the operating system
// before they run the command, such as the one of the Debian package.
const actorVariable = "TOLLGATE_ACTOR"

// withOperator names the operator for the audit log: a claim, not a
// permission. A name that is unknown, or that a gate would refuse, is not
// worth a failure.
func withOperator(ctx context.Context) context.Context {
	name := os.Getenv(actorVariable)
	if current, err := user.Current(); name == "" && err == nil {
		name = current.Username
	}
	name = strings.TrimSpace(name)
	if len(name) > api.MaxActor || !actors.MatchString(name) {
		return ctx
	}
	return client.WithActor(ctx, name)
}
