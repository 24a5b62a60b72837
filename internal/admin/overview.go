package admin

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/usage"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

type countsInput struct {
	Day   string `query:"day" format:"date" doc:"The day, such as 2026-11-20. Set either day or month."`
	Month string `query:"month" doc:"The month, such as 2026-11."`
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
		Summary: "Show what all accounts called on a day or in a month",
		Description: "For bills: a row for each account, day and endpoint with calls, account by account. Closed accounts are among them. " +
			"A page ends before its limit when it is long. It can also be empty and have a next one.",
	}), answer(s, s.listCounts))
	huma.Register(router, operation(huma.Operation{
		OperationID: "show-top", Method: http.MethodGet, Path: "/tollgate/usage/top", Tags: []string{"usage"},
		Summary:     "Show the busiest accounts, and those nearest to a limit",
		Description: "Reads the counts of all accounts. The limits are those of a day or a month, with the overrides of the account. Limits of keys and limits of 0 are not among them.",
	}), answer(s, s.showTop))
	huma.Register(router, operation(huma.Operation{
		OperationID: "show-summary", Method: http.MethodGet, Path: "/tollgate/summary", Tags: []string{"usage"},
		Summary: "Show what all accounts called, what was refused, and what needs care",
		Description: "The gate keeps the summary and makes it at most once a minute, because that reads the counts of all accounts. A request that finds an older one gets it at once, and the gate makes the next one. " +
			"Without one of the last hour, a request waits for up to 4 seconds. Then the answer is 503 with the code unavailable and Retry-After, and the gate continues to make the summary.",
	}), answer(s, s.showSummary))
	huma.Register(router, operation(huma.Operation{
		OperationID: "show-census", Method: http.MethodGet, Path: "/tollgate/census", Tags: []string{"plans"},
		Summary:     "Show what all accounts need of a configuration",
		Description: "The names of plans, abilities, endpoints and the time zone that the store has. It reads all accounts. The command caddy tollgate check compares them with a configuration.",
	}), answer(s, func(ctx context.Context, with *session, _ *struct{}) (api.Census, error) {
		return usage.Census(ctx, with.policy, with.book, with.now)
	}))
}

// maxCounts is how many accounts are read at once at most, and longPage the size
// from which on a page ends, in bytes. An account can have thousands of rows.
const (
	maxCounts = 32
	longPage  = 1 << 20
)

func (s *server) listCounts(ctx context.Context, with *session, in *countsInput) (api.UsageCounts, error) {
	first, last, err := in.days()
	if err != nil {
		return api.UsageCounts{}, err
	}
	page, size, after := api.UsageCounts{Counts: []api.UsageCount{}}, 0, in.After
	// More accounts at once as long as they have few rows.
	for left, some := in.Limit, 1; left > 0 && size < longPage; left, some = left-some, min(2*some, maxCounts) {
		bills, next, err := with.book.Bills(ctx, after, min(left, some), first, last)
		if err != nil {
			return api.UsageCounts{}, err
		}
		for _, b := range bills {
			page.Counts = append(page.Counts, api.UsageCount{
				Day: b.Day.String(), Account: b.Account, Label: b.Label, Plan: b.Plan, Closed: b.Closed,
				Endpoint: b.Endpoint, Calls: b.Calls, Credited: b.Credited,
			})
			size += rowSize + len(b.Account) + len(b.Label) + len(b.Plan) + len(b.Endpoint)
		}
		if page.Next = &next; next == "" {
			page.Next = nil
			break
		}
		after = next
	}
	return page, nil
}

// rowSize is about the size of a row of counts without its texts, in bytes.
const rowSize = 120

// days returns the first and the last day that are asked for.
func (in *countsInput) days() (first, last calendar.Day, err error) {
	day := in.Day
	if in.Month != "" {
		day = in.Month + "-01"
	}
	if first, err = calendar.ParseDay(day); err != nil || (in.Day == "") == (in.Month == "") {
		return 0, 0, invalidRequest("Set the parameter day to a date such as 2026-11-20, or month to a month such as 2026-11.")
	}
	if last = first; in.Month != "" {
		_, last = first.Month()
	}
	return first, last, nil
}

func (s *server) showTop(ctx context.Context, with *session, in *topInput) (api.UsageTop, error) {
	return usage.Top(ctx, with.policy, with.book, usage.TopQuery{Now: with.now, Days: in.Days, Limit: in.Limit})
}
