package admin

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// enrolling is the actor in the audit log.
const enrolling = "identity"

// Enrol creates the account of an identity on a plan, unless it exists. Its
// label is the name of the user: the id may have only a part of it.
func Enrol(ctx context.Context, backend Backend, id, user, plan string) error {
	with, err := (&Server{Backend: backend}).Open()
	if err != nil {
		return err
	}
	// Later calls need the account too: create it also if the client
	// disconnects.
	ctx = As(context.WithoutCancel(ctx), api.Actor{Kind: api.ActorApplication, ID: enrolling})
	return with.Change(ctx, id, func(a *book.Account) error {
		if a.Exists {
			return nil
		}
		wanted := api.AccountChange{Plan: &plan}
		if IsText(user, 0, store.MaxLabel) {
			wanted.Label = &user
		}
		with.SetAccount(ctx, a, wanted)
		return nil
	})
}
