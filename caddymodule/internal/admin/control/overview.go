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
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
)

type countsInput struct {
	Day   string `query:"day" required:"true" format:"date" doc:"The day, such as 2026-11-20."`
	After string `query:"after" maxLength:"64" doc:"Lists the accounts after the page with this next."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of accounts."`
}

type topInput struct {
	Days  int `query:"days" minimum:"1" maximum:"90" default:"1" doc:"The last days that count for the busiest accounts, including today."`
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"20" doc:"The maximum number of accounts, and of limits."`
}

// registerOverview adds the operations about the usage of all accounts.
func (s *server) registerOverview(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-counts", Method: http.MethodGet, Path: "/tollgate/usage/counts", Tags: []string{"usage"},
		Summary:     "Show what all accounts used on a day",
		Description: "In ascending order of account and endpoint, some accounts at a time. A page can be empty and have a next one.",
	}), answer(s, s.listCounts))
	huma.Register(router, operation(huma.Operation{
		OperationID: "show-top", Method: http.MethodGet, Path: "/tollgate/usage/top", Tags: []string{"usage"},
		Summary:     "Show the busiest accounts, and those nearest to a limit",
		Description: "Reads the counts of all accounts. The limits are those of a day or a month, with the overrides of the account. Limits of keys and limits of 0 are not among them.",
	}), answer(s, s.showTop))
}

func (s *server) listCounts(ctx context.Context, with *session, in *countsInput) (api.UsageCounts, error) {
	day, err := calendar.ParseDay(in.Day)
	if err != nil {
		return api.UsageCounts{}, invalidRequest("The parameter day is not a date such as 2026-11-20.")
	}
	accounts, err := with.book.List(ctx, in.After, in.Limit+1, false)
	if err != nil {
		return api.UsageCounts{}, err
	}
	page := api.UsageCounts{Day: day.String(), Counts: []api.UsageCount{}}
	accounts, page.Next = cut(accounts, in.Limit, func(a *book.Account) string { return a.ID })
	ids := make([]string, len(accounts))
	for i := range accounts {
		ids[i] = accounts[i].ID
	}
	counts, err := with.book.CountsOfAccounts(ctx, ids, day, day)
	if err != nil {
		return api.UsageCounts{}, err
	}
	for _, c := range counts {
		page.Counts = append(page.Counts, api.UsageCount{Account: c.Account, Endpoint: c.Endpoint, Calls: c.Used})
	}
	slices.SortFunc(page.Counts, func(a, b api.UsageCount) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return page, nil
}

func (s *server) showTop(ctx context.Context, with *session, in *topInput) (api.UsageTop, error) {
	return usage.Top(ctx, with.policy, with.book, usage.TopQuery{Now: with.now, Days: in.Days, Limit: in.Limit})
}
