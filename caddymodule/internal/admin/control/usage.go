package control

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/usage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
)

type getUsageInput struct {
	Account accountID `path:"account"`
	Days    int       `query:"days" minimum:"1" maximum:"90" doc:"Adds the history of this number of days, including today."`
}

type resetUsageInput struct {
	Account  accountID `path:"account"`
	Endpoint string    `query:"endpoint" maxLength:"64" doc:"The endpoint whose count to reset. Default: all."`
}

func (s *server) registerUsage(router huma.API) {
	const path = "/tollgate/accounts/{account}/usage"
	huma.Register(router, operation(huma.Operation{
		OperationID: "get-usage", Method: http.MethodGet, Path: path, Tags: []string{"usage"},
		Summary:     "Show what an account used",
		Description: "The same document as the usage endpoint of the gate, with the limits of all keys instead of one, and with a history if days is set.",
	}), answer(s, s.getUsage))
	huma.Register(router, operation(huma.Operation{
		OperationID: "reset-usage", Method: http.MethodDelete, Path: path, Tags: []string{"usage"},
		Summary:     "Reset today's counts",
		Description: "Sets the counts of one endpoint or of all to zero, also those of keys: what was called today is given back in every limit of a day and of a month. Limits, paces and the counts of other days do not change.",
	}), perform(s, s.resetUsage))
}

func (s *server) getUsage(ctx context.Context, with *session, in *getUsageInput) (api.UsageDocument, error) {
	a, err := with.book.Get(ctx, string(in.Account))
	if err != nil {
		return api.UsageDocument{}, err
	}
	return usage.Build(ctx, with.policy, with.book, usage.Query{
		Account: a.ID, Plan: a.Plan, Overrides: a.Overrides, Keys: a.Keys, Now: with.now, Days: in.Days,
	})
}

// resetUsage records the reset in a step of its own: counts are not in the
// document. If the step fails, nothing is reset.
func (s *server) resetUsage(ctx context.Context, with *session, in *resetUsageInput) error {
	if in.Endpoint != "" && with.policy.Endpoint(in.Endpoint) == nil {
		return unknownEndpoint(http.StatusBadRequest, in.Endpoint)
	}
	err := with.change(ctx, string(in.Account), func(a *book.Account) error {
		if !a.Exists {
			return store.ErrNotFound
		}
		with.record(ctx, a, api.UsageReset, in.Endpoint, nil, nil)
		return nil
	})
	if err != nil {
		return err
	}
	return with.book.ResetCounts(ctx, string(in.Account), in.Endpoint, with.policy.Calendar.At(with.now).Day)
}
