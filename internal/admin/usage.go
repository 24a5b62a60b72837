package admin

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

// Account returns an account. What is left of top-ups that have ended is gone.
func (with *Session) Account(ctx context.Context, id string) (*book.Account, error) {
	a, err := with.Book.Get(ctx, id)
	if err == nil && a.Lapsed(with.Now) {
		if err = with.Book.EndTopUps(ctx, id, with.Policy.Except(), with.Now); err == nil {
			a, err = with.Book.Get(ctx, id)
		}
	}
	return a, err
}

func getUsage(ctx context.Context, with *Session, in *api.UsageQuery) (api.UsageDocument, error) {
	a, err := with.Account(ctx, in.Account)
	if err != nil {
		return api.UsageDocument{}, err
	}
	return usage.Build(ctx, with.Policy, with.Book, usage.Query{
		Account: a.ID, Plan: a.Plan, Terms: &a.Terms, Keys: a.Keys, Now: with.Now, Days: in.Days,
	})
}
