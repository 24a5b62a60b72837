package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

var (
	errNoOverride       = apierror.New(http.StatusNotFound, "not_found", "The account has no override of this endpoint and period: see the list of its limits.")
	errTooManyOverrides = apierror.New(http.StatusConflict, "too_many_limits", fmt.Sprintf("The account has %d overrides; remove one first.", store.MaxOverrides))
)

func (s *Server) serveLimits() {
	Handle(s, api.ListLimits, listOverrides)
	Handle(s, api.PutLimit, putOverride)
	Perform(s, api.DeleteLimit, deleteOverride)
}

func listOverrides(ctx context.Context, with *Session, in *api.OfAccount) (api.OverrideList, error) {
	a, err := with.Book.Get(ctx, in.Account)
	if err != nil {
		return api.OverrideList{}, err
	}
	list := api.OverrideList{Limits: []api.Override{}}
	for i := range a.Overrides {
		if o := &a.Overrides[i]; o.Live(with.Now) {
			list.Limits = append(list.Limits, showOverride(o))
		}
	}
	return list, nil
}

func putOverride(ctx context.Context, with *Session, in *api.OverridePut) (api.Override, error) {
	override, err := with.override(in)
	if err != nil {
		return api.Override{}, err
	}
	shown := showOverride(&override)
	return shown, with.Change(ctx, in.Account, func(a *book.Account) error {
		before, err := with.takeOverride(a, override.Limit)
		if err != nil {
			return err
		}
		if len(a.Overrides) >= store.MaxOverrides {
			return errTooManyOverrides
		}
		a.Overrides = append(a.Overrides, override)
		with.Record(Because(ctx, in.Body.Reason), a, api.LimitSet, target(override.Limit), before, shown)
		return nil
	})
}

func deleteOverride(ctx context.Context, with *Session, in *api.OfLimit) error {
	limit := limitOf(in.Endpoint, in.Period)
	return with.Change(ctx, in.Account, func(a *book.Account) error {
		before, err := with.takeOverride(a, limit)
		if err != nil {
			return err
		}
		if before == nil {
			return errNoOverride
		}
		with.Record(ctx, a, api.LimitClear, target(limit), before, nil)
		return nil
	})
}

// ShowLimit shows a limit of a call, which costs that much at that time, and what is
// left of it. month is that of the account.
func ShowLimit(p *policy.Policy, limit *store.Limit, room *store.Room, cost int64, at time.Time, month calendar.Window) api.CallLimit {
	left := api.CallLimit{
		Endpoint: limit.Endpoint, Period: limit.Period.String(), Limit: limit.Number(), Of: limit.Of(), Calls: limit.Calls,
		Remaining: room.Remaining, Refuses: room.Remaining < limit.Weight(cost),
	}
	if limit.Soft {
		left.Soft = &limit.Max
	}
	if !limit.Period.IsPace() {
		left.Used = new(room.Used(limit))
	}
	if !limit.Period.IsPace() && limit.Period < store.Total {
		left.ResetsAt = new(p.Calendar.Span(limit.Period.Window(p.Calendar.At(at).Day, month)).End)
	}
	return left
}

// target is a limit as the target of an entry.
func target(limit store.Limit) string { return limit.Endpoint + "/" + limit.Period.String() }

// takeOverride removes the override of a limit from an account, and those that
// have ended. It returns what the API showed of it, nil if there was none.
func (with *Session) takeOverride(a *book.Account, limit store.Limit) (before any, err error) {
	if !a.Exists {
		return nil, store.ErrNotFound
	}
	a.Overrides = slices.DeleteFunc(a.Overrides, func(o store.Override) bool {
		if o.Same(limit) && o.Live(with.Now) {
			before = showOverride(&o)
		}
		return o.Same(limit) || !o.Live(with.Now)
	})
	return before, nil
}

// override checks a request and returns the override that it describes.
func (with *Session) override(in *api.OverridePut) (override store.Override, err error) {
	override = store.Override{Limit: limitOf(in.Endpoint, in.Period), Reason: in.Body.Reason, CreatedAt: Round(with.Now)}
	if override.Max = store.Unlimited; in.Body.Limit != nil {
		override.Max = *in.Body.Limit
	}
	switch {
	case !with.hasEndpoint(in.Endpoint):
		return override, UnknownEndpoint(http.StatusNotFound, in.Endpoint)
	case policy.CheckLimit(override.Limit) != nil:
		return override, invalidPace(override.Period)
	case strings.ContainsFunc(in.Body.Reason, IsHidden):
		return override, api.ErrInvalidReason
	case in.Body.ExpiresAt != nil:
		override.ExpiresAt, err = with.CheckExpiry(*in.Body.ExpiresAt)
	}
	return override, err
}

// limitOf returns a limit without a Max. huma has checked the period.
func limitOf(endpoint, period string) store.Limit {
	parsed, _ := store.ParsePeriod(period)
	return store.Limit{Endpoint: endpoint, Period: parsed}
}

// hasEndpoint tells whether limits can name an endpoint.
func (with *Session) hasEndpoint(name string) bool {
	return name == store.All || with.Policy.Endpoint(name) != nil
}

func showOverride(o *store.Override) api.Override {
	shown := api.Override{
		Endpoint: o.Endpoint, Period: o.Period.String(), ExpiresAt: roundOrNil(o.ExpiresAt), Reason: o.Reason, CreatedAt: Round(o.CreatedAt),
	}
	if o.Max != store.Unlimited {
		shown.Limit = new(o.Max)
	}
	return shown
}
