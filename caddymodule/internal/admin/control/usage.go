package control

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/usage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

type getUsageInput struct {
	Account accountID `path:"account"`
	Days    int       `query:"days" minimum:"1" maximum:"90" doc:"Adds the history of this number of days, including today."`
}

type keyUsageInput struct {
	Account accountID `path:"account"`
	ID      string    `path:"id" minLength:"1" maxLength:"64" doc:"The key's id."`
	Days    int       `query:"days" minimum:"1" maximum:"30" default:"30" doc:"The number of days, including today."`
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
	huma.Register(router, operation(huma.Operation{
		OperationID: "get-key-usage", Method: http.MethodGet, Path: "/tollgate/accounts/{account}/keys/{id}/usage", Tags: []string{"usage"},
		Summary:     "Show how many calls a key made",
		Description: "Calls by day, also those of the keys that this key replaces. The gate counts them in the background, unlike the counts of limits: a crash of the gate loses those of the last seconds.",
	}), answer(s, s.getKeyUsage))
}

func (s *server) getUsage(ctx context.Context, with *session, in *getUsageInput) (api.UsageDocument, error) {
	account, err := with.store.Account(ctx, string(in.Account))
	if err != nil {
		return api.UsageDocument{}, err
	}
	keys, err := with.store.ListKeys(ctx, account.ID)
	if err != nil {
		return api.UsageDocument{}, err
	}
	return usage.Build(ctx, with.policy, with.store, usage.Query{
		Account: account.ID, Plan: account.Plan, Overrides: account.Overrides, Keys: keys, Now: with.now, Days: in.Days,
	})
}

func (s *server) getKeyUsage(ctx context.Context, with *session, in *keyUsageInput) (api.KeyUsage, error) {
	key, err := with.key(ctx, string(in.Account), in.ID)
	if err != nil {
		return api.KeyUsage{}, err
	}
	// Recent writes the calls that wait, so that the days include them.
	if _, err := with.store.Recent(ctx, key.Account, with.now); err != nil {
		return api.KeyUsage{}, err
	}
	keys, err := with.store.ListKeys(ctx, key.Account)
	if err != nil {
		return api.KeyUsage{}, err
	}
	var made []store.KeyDay
	for _, k := range keys {
		if k.CountsAs() == key.CountsAs() {
			made = store.AddDays(made, k.Days)
		}
	}
	today := with.policy.Calendar.At(with.now).Day
	shown := api.KeyUsage{Key: key.ID}
	for day := today - calendar.Day(in.Days-1); day <= today; day++ {
		d := api.KeyDay{Day: day.String()}
		if i, found := slices.BinarySearchFunc(made, day, func(m store.KeyDay, day calendar.Day) int { return cmp.Compare(m.Day, day) }); found {
			d.Calls, d.Refused = made[i].Calls, made[i].Refused
		}
		shown.Days = append(shown.Days, d)
	}
	return shown, nil
}

func (s *server) resetUsage(ctx context.Context, with *session, in *resetUsageInput) error {
	if in.Endpoint != "" && with.policy.Endpoint(in.Endpoint) == nil {
		return unknownEndpoint(http.StatusBadRequest, in.Endpoint)
	}
	if _, err := with.store.Account(ctx, string(in.Account)); err != nil {
		return err
	}
	if err := with.record(ctx, change{action: api.UsageReset, account: string(in.Account), target: in.Endpoint}); err != nil {
		return err
	}
	return with.store.ResetCounts(ctx, string(in.Account), in.Endpoint, with.policy.Calendar.At(with.now).Day)
}
