// Package usage builds the usage document of an account: its counts, its
// limits, when the counts reset, and its last calls.
//
// The usage endpoint of the gate and the control API answer with it. Package
// api has its types.
package usage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// ErrDays is returned for a history that is neither 0 nor 1 to
// api.MaxUsageDays days long.
var ErrDays = errors.New("days must be from 1 to 90")

// Source has counts and calls. Every store.Store implements it.
type Source interface {
	// Counts returns the counts above zero of the days from first to
	// last, both included, in no particular order.
	Counts(ctx context.Context, account string, first, last calendar.Day) ([]store.Count, error)
	// Recent returns the last calls, newest first.
	Recent(ctx context.Context, account string, now time.Time) ([]store.Record, error)
}

// Build returns the usage of an account on a plan at now, with a history of
// that many days, including today, or none for 0.
//
// It lists the endpoints of the current plan. An endpoint that the plan does
// not have any more is in neither the counts nor the history, also if it was
// called today: it has no limit. Its calls are still among the recent ones.
// A plan that does not exist any more has no endpoints.
func Build(ctx context.Context, p *policy.Policy, source Source, account, plan string, now time.Time, days int) (api.UsageDocument, error) {
	if days < 0 || days > api.MaxUsageDays {
		return api.UsageDocument{}, ErrDays
	}
	today := p.Calendar.At(now)
	first := today.Day - calendar.Day(max(days, 1)-1)
	counts, err := source.Counts(ctx, account, first, today.Day)
	if err != nil {
		return api.UsageDocument{}, fmt.Errorf("reading counts: %w", err)
	}
	recent, err := source.Recent(ctx, account, now)
	if err != nil {
		return api.UsageDocument{}, fmt.Errorf("reading recent calls: %w", err)
	}
	used := make(map[calendar.Day]map[string]int64)
	for _, c := range counts {
		if used[c.Day] == nil {
			used[c.Day] = make(map[string]int64)
		}
		used[c.Day][c.Endpoint] += c.Used
	}
	document := api.UsageDocument{
		Account:     account,
		Plan:        plan,
		Timezone:    p.Calendar.Zone(),
		Day:         today.Day.String(),
		ResetsAt:    today.End,
		Endpoints:   endpoints(p, plan, used[today.Day]),
		RecentCalls: calls(recent),
	}
	if days > 0 {
		document.Days = history(document.Endpoints, used, first, today.Day)
	}
	return document, nil
}

// endpoints returns today's counts with the limits. After a change to a
// smaller plan, a count can be above its limit; then nothing remains.
func endpoints(p *policy.Policy, plan string, used map[string]int64) []api.UsageEndpoint {
	list := []api.UsageEndpoint{}
	for _, e := range p.Endpoints {
		limit, listed := p.Plan(plan).Limit(e)
		if !listed {
			continue
		}
		row := api.UsageEndpoint{Endpoint: e.Name, Method: e.Method, Path: e.Path, Used: used[e.Name]}
		if limit != store.Unlimited {
			row.Limit = new(limit)
			row.Remaining = new(max(0, limit-row.Used))
		}
		list = append(list, row)
	}
	return list
}

func calls(recent []store.Record) []api.UsageCall {
	list := make([]api.UsageCall, 0, len(recent))
	for _, r := range recent {
		list = append(list, api.UsageCall{
			At:         api.Millis{Time: r.At},
			Endpoint:   r.Endpoint,
			Method:     r.Method,
			Path:       r.Path,
			Status:     r.Status,
			DurationMS: milliseconds(r.Duration),
			Key:        r.KeyName,
		})
	}
	return list
}

// milliseconds rounds to a microsecond: the clock is not more precise.
func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

func history(endpoints []api.UsageEndpoint, used map[calendar.Day]map[string]int64, first, last calendar.Day) []api.UsageDay {
	days := make([]api.UsageDay, 0, last-first+1)
	for day := first; day <= last; day++ {
		calls := make(map[string]int64, len(endpoints))
		for _, e := range endpoints {
			calls[e.Endpoint] = used[day][e.Endpoint]
		}
		days = append(days, api.UsageDay{Day: day.String(), Calls: calls})
	}
	return days
}
