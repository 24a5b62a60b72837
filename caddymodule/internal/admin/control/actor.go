package control

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

var errInvalidActor = apierror.New(http.StatusBadRequest, "invalid_actor",
	"Tollgate-Actor has 1 to 200 characters, none of them invisible, and is sent once.")

type (
	adminKey struct{}
	actorKey struct{}
)

// AsAdmin returns a request of Caddy's admin endpoint for the handler of New.
// Its changes are those of an admin.
func AsAdmin(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), adminKey{}, true))
}

// isAdmin tells whether a request came over Caddy's admin endpoint.
func isAdmin(ctx context.Context) bool { return ctx.Value(adminKey{}) != nil }

// withActor adds who acts to the context of a request.
func withActor(r *http.Request) (*http.Request, *apierror.Error) {
	who := api.Actor{Kind: api.ActorApplication}
	if named := r.Header.Values(api.ActorHeader); len(named) > 0 {
		if len(named) > 1 || !validActor(named[0]) {
			return nil, errInvalidActor
		}
		who = api.Actor{Kind: api.ActorPerson, ID: named[0]}
	}
	if isAdmin(r.Context()) {
		who.Kind = api.ActorAdmin
	}
	return r.WithContext(context.WithValue(r.Context(), actorKey{}, who)), nil
}

func validActor(id string) bool {
	n := utf8.RuneCountInString(id)
	return n >= 1 && n <= api.MaxActor && utf8.ValidString(id) && !strings.ContainsFunc(id, isHidden)
}

// actorOf returns who acts. withActor has set it.
func actorOf(ctx context.Context) api.Actor {
	who, _ := ctx.Value(actorKey{}).(api.Actor)
	return who
}
