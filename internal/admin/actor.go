package admin

import (
	"context"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

var errInvalidActor = apierror.New(http.StatusBadRequest, "invalid_actor",
	"Tollgate-Actor has 1 to 200 characters, none of them invisible, and is sent once.")

type (
	adminKey  struct{}
	actorKey  struct{}
	reasonKey struct{}
)

// AsAdmin returns a request of Caddy's admin endpoint for Server.Handler.
// Its changes are those of an admin.
func AsAdmin(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), adminKey{}, true))
}

// As returns a context for changes that the gate makes by itself.
func As(ctx context.Context, who api.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, who)
}

func isAdmin(ctx context.Context) bool { return ctx.Value(adminKey{}) != nil }

// withActor adds who acts, and why, to the context of a request.
func withActor(r *http.Request) (*http.Request, *apierror.Error) {
	who := api.Actor{Kind: api.ActorApplication}
	if named := r.Header.Values(api.ActorHeader); len(named) > 0 {
		if len(named) > 1 || !IsText(named[0], 1, api.MaxActor) {
			return nil, errInvalidActor
		}
		who = api.Actor{Kind: api.ActorPerson, ID: named[0]}
	}
	if isAdmin(r.Context()) {
		who.Kind = api.ActorAdmin
	}
	ctx := context.WithValue(r.Context(), actorKey{}, who)
	if why := r.Header.Values(api.ReasonHeader); len(why) > 0 {
		if len(why) > 1 || !IsText(why[0], 0, api.MaxReason) {
			return nil, api.ErrInvalidReason
		}
		ctx = Because(ctx, why[0])
	}
	return r.WithContext(ctx), nil
}

// Because adds why a change is made to a context, unless the request said it
// before, in its header.
func Because(ctx context.Context, why string) context.Context {
	if ctx.Value(reasonKey{}) != nil || why == "" {
		return ctx
	}
	return context.WithValue(ctx, reasonKey{}, why)
}
