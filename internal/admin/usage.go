package admin

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

func getUsage(ctx context.Context, with *Session, in *api.UsageQuery) (api.UsageDocument, error) {
	a, err := with.Book.Get(ctx, in.Account)
	if err != nil {
		return api.UsageDocument{}, err
	}
	return usage.Build(ctx, with.Policy, with.Book, usage.Query{
		Account: a.ID, Plan: a.Plan, Overrides: a.Overrides, Keys: a.Keys, Now: with.Now, Days: in.Days,
	})
}
