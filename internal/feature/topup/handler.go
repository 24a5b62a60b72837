// Package topup adds calls to the totals of accounts: limits that do not renew.
package topup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

var (
	errOther   = apierror.New(http.StatusConflict, "topup_exists", "The account has another top-up with this id: for another endpoint, number of calls or end.")
	errTooMany = apierror.New(http.StatusConflict, "too_many_topups", fmt.Sprintf("The account has %d top-ups of this total that end. Wait until one has ended, or add one that never ends.", store.MaxTopUps))
)

// Serve adds the operation.
func Serve(s *admin.Server) { admin.Handle(s, api.TopUpUsage, topUp) }

func topUp(ctx context.Context, with *admin.Session, in *api.TopUpCreation) (shown api.TopUp, err error) {
	t := book.TopUp{Endpoint: in.Body.Endpoint, Calls: in.Body.Calls}
	if t.Endpoint != store.All && with.Policy.Endpoint(t.Endpoint) == nil {
		return shown, admin.UnknownEndpoint(http.StatusNotFound, t.Endpoint)
	}
	shown = api.TopUp{ID: in.Body.ID, Account: in.Account, Endpoint: t.Endpoint, Calls: t.Calls}
	if in.Body.ExpiresAt != nil {
		t.ExpiresAt = admin.Round(*in.Body.ExpiresAt)
		shown.ExpiresAt = &t.ExpiresAt
	}
	check := func(a *book.Account) error {
		if !t.ExpiresAt.IsZero() {
			if _, err := with.CheckExpiry(t.ExpiresAt); err != nil {
				return err
			}
		}
		if totalOf(with, a, t.Endpoint, with.Now) == nil {
			return apierror.New(http.StatusConflict, "no_total", fmt.Sprintf("The plan %s of the account has no total of %s to add to.", a.Plan, t.Endpoint))
		}
		return nil
	}
	after, used, err := with.Book.TopUp(ctx, with.Now, in.Account, in.Body.ID, t, with.Policy.Except(), check, func(a *book.Account) {
		with.Record(ctx, a, api.UsageTopUp, t.Endpoint, nil, shown)
	})
	switch {
	case errors.Is(err, book.ErrOtherTopUp):
		return shown, errOther
	case errors.Is(err, book.ErrTooManyTopUps):
		return shown, errTooMany
	case err != nil:
		return shown, err
	}
	with.Follow()
	if limit := totalOf(with, after, t.Endpoint, with.Now); limit != nil {
		shown.Remaining = new(max(0, limit.Max-used))
	}
	return shown, nil
}

// totalOf returns the total of an endpoint that the account has, nil for none. One
// without a number has none to add to.
func totalOf(with *admin.Session, a *book.Account, endpoint string, now time.Time) *store.Limit {
	plan := with.Policy.Plan(a.Plan)
	if plan == nil {
		return nil
	}
	for _, e := range with.Policy.Endpoints {
		if !plan.Lists(e) || endpoint != store.All && e.Name != endpoint {
			continue
		}
		limits := plan.LimitsOf(e, &a.Terms, now)
		if at := slices.IndexFunc(limits, store.Limit{Endpoint: endpoint, Period: store.Total}.Same); at >= 0 {
			return &limits[at]
		}
	}
	return nil
}
