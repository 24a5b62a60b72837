package report

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

const (
	summaryDays     = 30
	summaryRows     = 10   // limits, and accounts with refused calls
	mostRefusedDays = 7    // that count for these accounts
	refusedPage     = 1000 // rows that are read at once
)

// Summarize adds up what all accounts called, closed ones included, and what was
// refused. last is the last summary of the same policy, or empty: the calls of
// its days are not read again. The result has no checks.
func Summarize(ctx context.Context, p *policy.Policy, b *book.Book, now time.Time, last api.Summary) (api.Summary, error) {
	t := newTop(p, b, TopQuery{Now: now, Days: 1, Limit: summaryRows})
	first, s := t.Today.Day-summaryDays+1, api.Summary{At: now, Days: []api.SummaryDay{}}
	refused, ofAccount, err := refusedCalls(ctx, b, first, t.Today.Day)
	if err != nil {
		return s, fmt.Errorf("reading refused calls: %w", err)
	}
	calls, err := allCalls(ctx, b, first, t.Today.Day, last)
	if err != nil {
		return s, fmt.Errorf("reading the calls of all accounts: %w", err)
	}
	for day := first; day <= t.Today.Day; day++ {
		s.Days = append(s.Days, api.SummaryDay{Day: day.String(), Calls: calls.Of(day), Refused: refused.Of(day)})
	}
	most := best[api.RefusedAccount]{limit: summaryRows, list: []api.RefusedAccount{}, compare: func(a, b api.RefusedAccount) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Account, b.Account))
	}}
	err = book.EachPage(ctx, b, false, func(accounts []*book.Account, ids []string) error {
		for _, a := range accounts {
			if s.Accounts++; a.Disabled {
				s.Disabled++
			}
			if found := ofAccount[a.ID]; found != nil {
				found.Account, found.Label, found.Plan = a.ID, a.Label, a.Plan
				most.add(*found)
			}
		}
		return t.addPage(ctx, accounts, ids)
	})
	s.Nearest, s.MostRefused = t.nearest.list, most.list
	return s, err
}

// allCalls returns the calls of all accounts by day and endpoint. A day does not
// change after the next one: a credit moves calls, and their sum stays. So the
// days of the last summary are used again, but the last two.
func allCalls(ctx context.Context, b *book.Book, first, today calendar.Day, last api.Summary) (usage.Counts, error) {
	calls, missing := usage.Counts{}, first
	for i := range len(last.Days) - 2 {
		if day, err := calendar.ParseDay(last.Days[i].Day); err == nil && day == missing && day < today-1 {
			calls[day], missing = last.Days[i].Calls, day+1
		}
	}
	for after, more := "", true; more; {
		bills, next, err := b.Bills(ctx, after, book.PageSize, missing, today)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		for _, bill := range bills {
			calls.Of(bill.Day)[bill.Endpoint] += bill.Calls
		}
		after, more = next, next != ""
	}
	return calls, nil
}

// refusedCalls returns how many calls were refused by day and code, and by account
// on the last of these days.
func refusedCalls(ctx context.Context, b *book.Book, first, today calendar.Day) (usage.Counts, map[string]*api.RefusedAccount, error) {
	refused, ofAccount := usage.Counts{}, map[string]*api.RefusedAccount{}
	for day := first; day <= today; day++ {
		for after, more := (store.Refused{}), true; more; {
			rows, err := b.ListRefused(ctx, "", day, day, after, refusedPage)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return nil, nil, err
			}
			for _, r := range rows {
				refused.Of(day)[r.Code] += r.Calls
				if day <= today-mostRefusedDays {
					continue
				}
				if ofAccount[r.Account] == nil {
					ofAccount[r.Account] = &api.RefusedAccount{Codes: map[string]int64{}}
				}
				ofAccount[r.Account].Calls += r.Calls
				ofAccount[r.Account].Codes[r.Code] += r.Calls
			}
			if more = len(rows) == refusedPage; more {
				after = rows[len(rows)-1]
			}
		}
	}
	return refused, ofAccount, nil
}
