package report

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

// TopQuery is what Top needs to know.
type TopQuery struct {
	Now time.Time
	// Days is how many days count for the busiest accounts, including today.
	Days int
	// Limit is how many accounts and how many limits Top returns at most.
	Limit int
}

// Top returns the busiest accounts, and the limits of a day or a month that
// are nearest to be used up: those with the largest used part of the limit.
// Limits of which nothing is used, and limits of 0, are not among them.
func Top(ctx context.Context, p *policy.Policy, b *book.Book, q TopQuery) (api.UsageTop, error) {
	if q.Days < 1 || q.Days > api.MaxUsageDays {
		return api.UsageTop{}, usage.ErrDays
	}
	t := newTop(p, b, q)
	err := book.EachPage(ctx, b, false, func(accounts []*book.Account, ids []string) error { return t.addPage(ctx, accounts, ids) })
	return api.UsageTop{Busiest: t.busiest.list, Nearest: t.nearest.list}, err
}

// top has what Top found so far.
type top struct {
	usage.Moment
	now     time.Time
	policy  *policy.Policy
	book    *book.Book
	first   calendar.Day // of the days that count for the busiest accounts
	busiest best[api.BusyAccount]
	nearest best[api.NearestLimit]
}

func newTop(p *policy.Policy, b *book.Book, q TopQuery) *top {
	t := &top{
		Moment: usage.At(p, q.Now), now: q.Now, policy: p, book: b,
		busiest: best[api.BusyAccount]{limit: q.Limit, compare: compareBusy, list: []api.BusyAccount{}},
		nearest: best[api.NearestLimit]{limit: q.Limit, compare: compareNearest, list: []api.NearestLimit{}},
	}
	t.first = t.Today.Day - calendar.Day(q.Days-1)
	return t
}

// addPage adds some accounts. It reads the days of the month only if one of
// them has a limit of a month.
func (t *top) addPage(ctx context.Context, accounts []*book.Account, ids []string) error {
	limits, first, hasTotal := make([][]store.Limit, len(accounts)), t.first, false
	for i := range accounts {
		limits[i] = t.limitsOf(accounts[i])
		since, total := t.First(limits[i], &accounts[i].Terms)
		first, hasTotal = min(first, since), hasTotal || total
	}
	list, err := t.book.CountsOfAccounts(ctx, ids, first, t.Today.Day)
	if err == nil && hasTotal {
		var totals []store.StoredCount
		totals, err = t.book.CountsOfAccounts(ctx, ids, store.TotalDay, store.TotalDay)
		list = append(list, totals...)
	}
	if err != nil {
		return err
	}
	used, calls := make(map[string]usage.Counts, len(accounts)), make(map[string]int64, len(accounts))
	for _, c := range list {
		if c.Key == "" {
			if used[c.Account] == nil {
				used[c.Account] = usage.Counts{}
			}
			t.Add(used[c.Account], c.Count)
		}
		if (c.Key == "" || c.Key == store.Credited) && t.first <= c.Day && c.Day != store.TotalDay {
			calls[c.Account] += c.Used
		}
	}
	for i := range accounts {
		id := accounts[i].ID
		t.add(accounts[i], limits[i], used[id], calls[id])
	}
	return nil
}

// limitsOf returns the quotas that can refuse calls of an account, each once, except
// those of 0 and those of calls.
func (t *top) limitsOf(account *book.Account) (limits []store.Limit) {
	plan := t.policy.Plan(account.Plan)
	for _, e := range t.policy.Endpoints {
		if !plan.Lists(e) {
			continue
		}
		for _, l := range plan.LimitsOf(e, &account.Terms, t.now) {
			if !l.Period.IsPace() && l.Number() > 0 && !l.Calls && !slices.ContainsFunc(limits, l.Same) {
				limits = append(limits, l)
			}
		}
	}
	return limits
}

// add adds what one account used, and its calls.
func (t *top) add(account *book.Account, limits []store.Limit, used usage.Counts, calls int64) {
	if calls > 0 {
		t.busiest.add(api.BusyAccount{Account: account.ID, Label: account.Label, Plan: account.Plan, Calls: calls})
	}
	for _, l := range limits {
		if shown := t.Limit(l, &account.Terms, used); *shown.Used > 0 {
			t.nearest.add(api.NearestLimit{
				Account: account.ID, Label: account.Label, Plan: account.Plan, Endpoint: l.Endpoint, Period: shown.Period,
				Limit: shown.Limit, Used: *shown.Used, Remaining: *shown.Remaining, ResetsAt: shown.ResetsAt,
			})
		}
	}
}

func compareBusy(a, b api.BusyAccount) int {
	return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Account, b.Account))
}

// compareNearest orders by the used part of the limit, and equal parts by what
// remains.
func compareNearest(a, b api.NearestLimit) int {
	part := func(l api.NearestLimit) float64 { return float64(l.Used) / float64(l.Limit) }
	return cmp.Or(
		cmp.Compare(part(b), part(a)), cmp.Compare(a.Remaining, b.Remaining),
		cmp.Compare(a.Account, b.Account), cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Period, b.Period),
	)
}

// best keeps the first values of an order.
type best[T any] struct {
	limit   int
	compare func(a, b T) int
	list    []T // sorted
}

func (b *best[T]) add(value T) {
	at, _ := slices.BinarySearchFunc(b.list, value, b.compare)
	if at >= b.limit {
		return
	}
	b.list = slices.Insert(b.list[:min(len(b.list), b.limit-1)], at, value)
}
