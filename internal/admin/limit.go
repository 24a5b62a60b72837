package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

var (
	errNoOverride       = apierror.New(http.StatusNotFound, "not_found", "The account has no override of this endpoint and period: see the list of its limits.")
	errTooManyOverrides = apierror.New(http.StatusConflict, "too_many_limits", fmt.Sprintf("The account has %d overrides; remove one first.", store.MaxOverrides))
)

// OverridePath is the path of an override.
type OverridePath struct {
	Account  accountID `path:"account"`
	Endpoint string    `path:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	Period   string    `path:"period" enum:"second,minute,hour,day,month" doc:"The limit's period."`
}

type putOverrideInput struct {
	OverridePath
	Body api.OverrideRequest
}

func (s *server) registerLimits(router huma.API) {
	const path = "/tollgate/accounts/{account}/limits"
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-limits", Method: http.MethodGet, Path: path, Tags: []string{"limits"},
		Summary:     "List the overrides of an account",
		Description: "Oldest first, without those that have ended.",
	}), answer(s, s.listOverrides))
	huma.Register(router, operation(huma.Operation{
		OperationID: "put-limit", Method: http.MethodPut, Path: path + "/{endpoint}/{period}", Tags: []string{"limits"},
		Summary: "Override a limit of the account's plan, or add one",
		Description: "Replaces the override with the same endpoint and period. It applies to the account's next call and ends by itself. " +
			"It gives no access to an endpoint that the plan does not list. " +
			fmt.Sprintf("An account has at most %d overrides.", store.MaxOverrides),
	}, http.StatusConflict), answer(s, s.putOverride))
	huma.Register(router, operation(huma.Operation{
		OperationID: "delete-limit", Method: http.MethodDelete, Path: path + "/{endpoint}/{period}", Tags: []string{"limits"},
		Summary:     "Remove an override",
		Description: "The limit of the plan applies to the next call.",
	}), perform(s, s.deleteOverride))
}

func (s *server) listOverrides(ctx context.Context, with *session, in *accountInput) (api.OverrideList, error) {
	a, err := with.book.Get(ctx, string(in.Account))
	if err != nil {
		return api.OverrideList{}, err
	}
	list := api.OverrideList{Limits: []api.Override{}}
	for i := range a.Overrides {
		if o := &a.Overrides[i]; o.Live(with.now) {
			list.Limits = append(list.Limits, showOverride(o))
		}
	}
	return list, nil
}

func (s *server) putOverride(ctx context.Context, with *session, in *putOverrideInput) (api.Override, error) {
	override, err := with.override(in)
	if err != nil {
		return api.Override{}, err
	}
	shown := showOverride(&override)
	return shown, with.change(ctx, string(in.Account), func(a *book.Account) error {
		before, err := with.takeOverride(a, override.Limit)
		if err != nil {
			return err
		}
		if len(a.Overrides) >= store.MaxOverrides {
			return errTooManyOverrides
		}
		a.Overrides = append(a.Overrides, override)
		with.record(because(ctx, in.Body.Reason), a, api.LimitSet, target(override.Limit), before, shown)
		return nil
	})
}

func (s *server) deleteOverride(ctx context.Context, with *session, in *OverridePath) error {
	limit := limitOf(in.Endpoint, in.Period)
	return with.change(ctx, string(in.Account), func(a *book.Account) error {
		before, err := with.takeOverride(a, limit)
		if err != nil {
			return err
		}
		if before == nil {
			return errNoOverride
		}
		with.record(ctx, a, api.LimitClear, target(limit), before, nil)
		return nil
	})
}

// target is a limit as the target of an entry.
func target(limit store.Limit) string { return limit.Endpoint + "/" + limit.Period.String() }

// takeOverride removes the override of a limit from an account, and those that
// have ended. It returns what the API showed of it, nil if there was none.
func (with *session) takeOverride(a *book.Account, limit store.Limit) (before any, err error) {
	if !a.Exists {
		return nil, store.ErrNotFound
	}
	a.Overrides = slices.DeleteFunc(a.Overrides, func(o store.Override) bool {
		if o.Same(limit) && o.Live(with.now) {
			before = showOverride(&o)
		}
		return o.Same(limit) || !o.Live(with.now)
	})
	return before, nil
}

// override checks a request and returns the override that it describes.
func (with *session) override(in *putOverrideInput) (override store.Override, err error) {
	override = store.Override{Limit: limitOf(in.Endpoint, in.Period), Reason: in.Body.Reason, CreatedAt: round(with.now)}
	if override.Max = store.Unlimited; in.Body.Limit != nil {
		override.Max = *in.Body.Limit
	}
	switch {
	case !with.hasEndpoint(in.Endpoint):
		return override, unknownEndpoint(http.StatusNotFound, in.Endpoint)
	case policy.CheckLimit(override.Limit) != nil:
		return override, invalidPace(override.Period)
	case strings.ContainsFunc(in.Body.Reason, isHidden):
		return override, api.ErrInvalidReason
	case in.Body.ExpiresAt != nil:
		override.ExpiresAt, err = with.checkExpiry(*in.Body.ExpiresAt)
	}
	return override, err
}

// limitOf returns a limit without a Max. huma has checked the period.
func limitOf(endpoint, period string) store.Limit {
	parsed, _ := store.ParsePeriod(period)
	return store.Limit{Endpoint: endpoint, Period: parsed}
}

// hasEndpoint tells whether limits can name an endpoint.
func (with *session) hasEndpoint(name string) bool {
	return name == store.All || with.policy.Endpoint(name) != nil
}

func showOverride(o *store.Override) api.Override {
	shown := api.Override{
		Endpoint: o.Endpoint, Period: o.Period.String(), ExpiresAt: roundOrNil(o.ExpiresAt), Reason: o.Reason, CreatedAt: round(o.CreatedAt),
	}
	if o.Max != store.Unlimited {
		shown.Limit = new(o.Max)
	}
	return shown
}
