// Package bill is for bills: credits, and what all accounts called in a period.
package bill

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

var (
	errOtherCredit = apierror.New(http.StatusConflict, "credit_exists", "The account has another credit with this id: for another endpoint, day or number of calls.")
	errCreditDay   = apierror.New(http.StatusBadRequest, "invalid_day", fmt.Sprintf("The day of a credit is today or one of the %d days before, such as 2026-11-20.", store.CountsFor-1))
)

// Serve adds the operations for bills.
func Serve(s *admin.Server) {
	admin.Perform(s, api.ResetUsage, resetUsage)
	admin.Handle(s, api.CreditUsage, creditUsage)
	admin.Handle(s, api.ListCounts, listCounts)
}

func resetUsage(ctx context.Context, with *admin.Session, in *api.ResetQuery) error {
	if in.Endpoint != "" && with.Policy.Endpoint(in.Endpoint) == nil {
		return admin.UnknownEndpoint(http.StatusBadRequest, in.Endpoint)
	}
	if strings.ContainsFunc(in.Reason, admin.IsHidden) {
		return api.ErrInvalidReason
	}
	today := with.Policy.Calendar.At(with.Now).Day
	return with.Book.Reset(ctx, with.Now, in.Account, in.Endpoint, today, func(a *book.Account, made []book.Credit) {
		for i := range made {
			shown := showCredit(a.ID, "", in.Reason, &made[i])
			with.Record(admin.Because(ctx, in.Reason), a, api.UsageReset, shown.Endpoint, nil, shown)
		}
	})
}

func creditUsage(ctx context.Context, with *admin.Session, in *api.CreditCreation) (api.Credit, error) {
	credit := book.Credit{Endpoint: in.Body.Endpoint, Calls: in.Body.Calls, Day: with.Policy.Calendar.At(with.Now).Day}
	if in.Body.Day != "" {
		day, err := calendar.ParseDay(in.Body.Day)
		if err != nil || day > credit.Day || day <= credit.Day-store.CountsFor {
			return api.Credit{}, errCreditDay
		}
		credit.Day = day
	}
	if err := checkCalled(ctx, with, in.Account, credit); err != nil {
		return api.Credit{}, err
	}
	reason := in.Body.Reason
	if strings.ContainsFunc(reason, admin.IsHidden) {
		return api.Credit{}, api.ErrInvalidReason
	}
	id := cmp.Or(in.Body.ID, rand.Text())
	made, err := with.Book.Credit(ctx, with.Now, in.Account, id, []book.Credit{credit}, func(a *book.Account, made []book.Credit) {
		with.Record(admin.Because(ctx, reason), a, api.UsageCredit, credit.Endpoint, nil, showCredit(a.ID, id, reason, &made[0]))
	})
	switch {
	case errors.Is(err, book.ErrOtherCredit), err == nil && in.Body.Day != "" && made[0].Day != credit.Day:
		return api.Credit{}, errOtherCredit
	case errors.Is(err, book.ErrNothingLeft):
		return api.Credit{}, nothingLeft(made[0])
	case err != nil:
		return api.Credit{}, err
	}
	return showCredit(in.Account, id, reason, &made[0]), nil
}

// checkCalled refuses a credit of an endpoint that the configuration does not have
// and that the account did not call.
func checkCalled(ctx context.Context, with *admin.Session, account string, credit book.Credit) error {
	if with.Policy.Endpoint(credit.Endpoint) != nil {
		return nil
	}
	counts, err := with.Book.CountsOfAccounts(ctx, []string{account}, credit.Day, credit.Day)
	if err != nil || slices.ContainsFunc(counts, func(c store.StoredCount) bool {
		return with.Policy.Names.Endpoints.Today(c.Endpoint) == credit.Endpoint
	}) {
		return err
	}
	return admin.UnknownEndpoint(http.StatusBadRequest, credit.Endpoint)
}

func nothingLeft(c book.Credit) error {
	why := fmt.Sprintf("The account has no calls of %s on %s that count.", c.Endpoint, c.Day)
	if c.Called > 0 {
		why = fmt.Sprintf("All %d calls of %s on %s were given back before.", c.Called, c.Endpoint, c.Day)
	}
	return apierror.New(http.StatusConflict, "nothing_to_credit", "Nothing was given back. "+why)
}

func showCredit(account, id, reason string, c *book.Credit) api.Credit {
	return api.Credit{ID: id, Account: account, Endpoint: c.Endpoint, Day: c.Day.String(), Calls: c.Calls, Called: c.Called, Credited: c.Credited, Reason: reason}
}
