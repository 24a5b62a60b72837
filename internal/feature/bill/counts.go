package bill

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// maxCounts is how many accounts are read at once at most, and longPage the size
// from which on a page ends, in bytes. An account can have thousands of rows.
const (
	maxCounts = 32
	longPage  = 1 << 20
)

func listCounts(ctx context.Context, with *admin.Session, in *api.CountsQuery) (api.UsageCounts, error) {
	first, last, err := days(in)
	if err != nil {
		return api.UsageCounts{}, err
	}
	page, size, after := api.UsageCounts{Counts: []api.UsageCount{}}, 0, in.After
	// More accounts at once as long as they have few rows.
	for left, some := in.Limit, 1; left > 0 && size < longPage; left, some = left-some, min(2*some, maxCounts) {
		bills, next, err := with.Book.Bills(ctx, after, min(left, some), first, last)
		if err != nil {
			return api.UsageCounts{}, err
		}
		for _, b := range bills {
			page.Counts = append(page.Counts, api.UsageCount{
				Day: b.Day.String(), Account: b.Account, Label: b.Label, Plan: b.Plan, Closed: b.Closed,
				Endpoint: b.Endpoint, Calls: b.Calls, Credited: b.Credited, Overage: b.Overage, PeriodStart: b.Period.String(),
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

var errDays = admin.InvalidRequest("Set the parameter day to a date such as 2026-11-20, or month to a month such as 2026-11.")

// days returns the first and the last day that are asked for.
func days(in *api.CountsQuery) (first, last calendar.Day, err error) {
	day := in.Day
	if in.Month != "" {
		day = in.Month + "-01"
	}
	if first, err = calendar.ParseDay(day); err != nil || (in.Day == "") == (in.Month == "") {
		return 0, 0, errDays
	}
	if last = first; in.Month != "" {
		_, last = first.Month()
	}
	if last >= store.TotalDay {
		return 0, 0, errDays
	}
	return first, last, nil
}
