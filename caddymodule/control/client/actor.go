package client

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"regexp"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// actor is the key of an actor in a context.
type actor struct{}

// WithActor names who makes the changes of calls with the context, for the
// audit log: the id of a person, at most api.MaxActor printable characters of
// ASCII. Calls that change nothing do not send it.
func WithActor(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, actor{}, id)
}

// reason is the key of a reason in a context.
type reason struct{}

// WithReason says why the changes of calls with the context are made, for the
// audit log: at most api.MaxReason characters. A call with a reason that cannot
// be sent fails with api.ErrInvalidReason.
func WithReason(ctx context.Context, why string) context.Context {
	return context.WithValue(ctx, reason{}, strings.TrimSpace(why))
}

// textOf returns the actor or the reason of a context, empty without one.
func textOf(ctx context.Context, key any) string {
	text, _ := ctx.Value(key).(string)
	return text
}

// actors has the ids that a gate accepts.
var actors = regexp.MustCompile(`^[ -~]+$`)

// WithOperator names the person at the command line for the audit log, see
// WithActor. It is the first of TOLLGATE_ACTOR, the user who called sudo, and
// the user of the operating system: a claim, not a permission. A name that is
// unknown, or that a gate would refuse, is not worth a failure.
func WithOperator(ctx context.Context) context.Context {
	name := cmp.Or(os.Getenv("TOLLGATE_ACTOR"), os.Getenv("SUDO_USER"))
	if current, err := user.Current(); name == "" && err == nil {
		name = current.Username
	}
	name = strings.TrimSpace(name)
	if len(name) > api.MaxActor || !actors.MatchString(name) {
		return ctx
	}
	return WithActor(ctx, name)
}
