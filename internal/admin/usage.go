package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/usage"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

type getUsageInput struct {
	Account accountID `path:"account"`
	Days    int       `query:"days" minimum:"1" maximum:"90" doc:"Adds the history of this number of days, including today."`
}

type resetUsageInput struct {
	Account  accountID `path:"account"`
	Endpoint string    `query:"endpoint" maxLength:"64" doc:"The endpoint whose calls to give back. Default: all."`
	Reason   string    `query:"reason" maxLength:"200" doc:"Why, for the audit log."`
}

type creditInput struct {
	Account accountID `path:"account"`
	Body    api.CreditRequest
}

var (
	errOtherCredit = apierror.New(http.StatusConflict, "credit_exists", "The account has another credit with this id: for another endpoint, day or number of calls.")
	errCreditDay   = apierror.New(http.StatusBadRequest, "invalid_day", fmt.Sprintf("The day of a credit is today or one of the %d days before, such as 2026-11-20.", store.CountsFor-1))
)

func (s *server) registerUsage(router huma.API) {
	const path = "/tollgate/accounts/{account}/usage"
	huma.Register(router, operation(huma.Operation{
		OperationID: "get-usage", Method: http.MethodGet, Path: path, Tags: []string{"usage"},
		Summary:     "Show what an account used",
		Description: "The same document as the usage endpoint of the gate, with the limits of all keys instead of one, and with a history if days is set.",
	}), answer(s, s.getUsage))
	huma.Register(router, operation(huma.Operation{
		OperationID: "reset-usage", Method: http.MethodDelete, Path: path, Tags: []string{"usage"},
		Summary:     "Give all calls of today back",
		Description: "A credit of all calls of today, of one endpoint or of all: they are given back in every limit of a day and of a month, also in those of keys. The count of calls stays. Paces and other days do not change. Without calls that count, nothing changes.",
	}), perform(s, s.resetUsage))
	huma.Register(router, operation(huma.Operation{
		OperationID: "credit-usage", Method: http.MethodPost, Path: "/tollgate/accounts/{account}/credits", Tags: []string{"usage"}, DefaultStatus: http.StatusCreated,
		Summary: "Give calls of a day back",
		Description: "The calls are given back in every limit of that day and month, also in those of keys, but not more than were made and not given back before: if there are none, the answer is 409 nothing_to_credit. " +
			"The count of calls stays, for bills. Paces do not change. A request that is repeated with the same id gives nothing back again. " +
			"The calls can be those of closed accounts with the id: calls of the newest account are given back first.",
	}, http.StatusConflict), answer(s, s.creditUsage))
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

func (s *server) resetUsage(ctx context.Context, with *session, in *resetUsageInput) error {
	if in.Endpoint != "" && with.policy.Endpoint(in.Endpoint) == nil {
		return unknownEndpoint(http.StatusBadRequest, in.Endpoint)
	}
	if strings.ContainsFunc(in.Reason, isHidden) {
		return api.ErrInvalidReason
	}
	today := with.policy.Calendar.At(with.now).Day
	return with.book.Reset(ctx, with.now, string(in.Account), in.Endpoint, today, func(a *book.Account, made []book.Credit) {
		for i := range made {
			shown := showCredit(a.ID, "", in.Reason, &made[i])
			with.record(because(ctx, in.Reason), a, api.UsageReset, shown.Endpoint, nil, shown)
		}
	})
}

func (s *server) creditUsage(ctx context.Context, with *session, in *creditInput) (api.Credit, error) {
	credit := book.Credit{Endpoint: in.Body.Endpoint, Calls: in.Body.Calls, Day: with.policy.Calendar.At(with.now).Day}
	if in.Body.Day != "" {
		day, err := calendar.ParseDay(in.Body.Day)
		if err != nil || day > credit.Day || day <= credit.Day-store.CountsFor {
			return api.Credit{}, errCreditDay
		}
		credit.Day = day
	}
	if err := with.checkCalled(ctx, string(in.Account), credit); err != nil {
		return api.Credit{}, err
	}
	reason := in.Body.Reason
	if strings.ContainsFunc(reason, isHidden) {
		return api.Credit{}, api.ErrInvalidReason
	}
	id := cmp.Or(in.Body.ID, rand.Text())
	made, err := with.book.Credit(ctx, with.now, string(in.Account), id, []book.Credit{credit}, func(a *book.Account, made []book.Credit) {
		with.record(because(ctx, reason), a, api.UsageCredit, credit.Endpoint, nil, showCredit(a.ID, id, reason, &made[0]))
	})
	switch {
	case errors.Is(err, book.ErrOtherCredit), err == nil && in.Body.Day != "" && made[0].Day != credit.Day:
		return api.Credit{}, errOtherCredit
	case errors.Is(err, book.ErrNothingLeft):
		return api.Credit{}, nothingLeft(made[0])
	case err != nil:
		return api.Credit{}, err
	}
	return showCredit(string(in.Account), id, reason, &made[0]), nil
}

// checkCalled refuses a credit of an endpoint that the configuration does not have
// and that the account did not call.
func (with *session) checkCalled(ctx context.Context, account string, credit book.Credit) error {
	if with.policy.Endpoint(credit.Endpoint) != nil {
		return nil
	}
	counts, err := with.book.CountsOfAccounts(ctx, []string{account}, credit.Day, credit.Day)
	if err != nil || slices.ContainsFunc(counts, func(c store.StoredCount) bool { return c.Endpoint == credit.Endpoint }) {
		return err
	}
	return unknownEndpoint(http.StatusBadRequest, credit.Endpoint)
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
