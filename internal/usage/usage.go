// Package usage builds the usage document of an account: its counts, its
// limits, when the counts reset, and its last calls.
//
// The usage endpoint of the gate and the control API answer with it. Package
// contract has its types.
package usage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/contract"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// ErrDays is returned for a history that is neither 0 nor 1 to
// contract.MaxUsageDays days long.
var ErrDays = errors.New("days must be from 1 to 90")

// Source has counts and calls. A book.Book has them.
type Source interface {
	// Counts returns the counts above zero of a key on the days from first to
	// last, both included, in no particular order.
	Counts(ctx context.Context, account, key string, first, last calendar.Day) ([]store.Count, error)
	// CountsOfAccounts returns those of accounts, and what they were credited.
	CountsOfAccounts(ctx context.Context, accounts []string, first, last calendar.Day) ([]store.StoredCount, error)
	// Recent returns the last calls, newest first.
	Recent(ctx context.Context, account string, now time.Time) ([]store.Record, error)
	// Running returns the calls that run, for each endpoint or store.All.
	Running(ctx context.Context, account string, lists []string) ([]int64, error)
}

// Query is what Build needs to know.
type Query struct {
	Account string
	Plan    string // of the account
	Terms   *store.Terms
	// Key is the calling key, or nil. With a Key, the document has its limits.
	Key *store.Key
	// Keys are keys of the account. Without a Key, the document has the
	// limits of those that are live and have limits.
	Keys []*store.StoredKey
	Now  time.Time
	// Days is the length of the history, including today, or 0 for none.
	Days int
}

// Moment is an instant, whose periods limits cover.
type Moment struct {
	Today  *calendar.Span
	policy *policy.Policy
	except string // the endpoint that limits of all endpoints do not cover
	names  store.Names
}

// At returns the moment of an instant.
func At(p *policy.Policy, now time.Time) Moment {
	return Moment{Today: p.Calendar.At(now), policy: p, except: p.Except(), names: p.Names}
}

// window returns the days of a quota of an account with these terms.
func (m Moment) window(l *store.Limit, terms *store.Terms) calendar.Window {
	return l.Period.Window(m.Today.Day, terms.Month(m.Today.Day))
}

// First returns the first day of the periods of limits, today at the latest. Totals
// have a day of their own: hasTotal tells whether there are some.
func (m Moment) First(limits []store.Limit, terms *store.Terms) (first calendar.Day, hasTotal bool) {
	first = m.Today.Day
	for i := range limits {
		switch l := &limits[i]; {
		case l.Period == store.Total:
			hasTotal = true
		case !l.Period.IsPace():
			first = min(first, m.window(l, terms).First)
		}
	}
	return first, hasTotal
}

// builder has what all parts of a document need.
type builder struct {
	Moment
	Query
	source Source
	limits map[*policy.Endpoint][]store.Limit // of the endpoints of the plan
	number Counts                             // of calls, for limits of these
	// running has the calls that run, by endpoint or store.All, for limits of
	// calls at once.
	running map[string]int64
}

// Build returns the usage of an account.
//
// It lists the endpoints of the current plan. An endpoint that the plan does
// not have any more is in neither the list nor the history, also if it was
// called today: it has no limit of its own. Its calls are still among the
// recent ones and in the limits of all endpoints. A plan that does not exist
// any more has no endpoints.
func Build(ctx context.Context, p *policy.Policy, source Source, q Query) (contract.UsageDocument, error) {
	if q.Days < 0 || q.Days > contract.MaxUsageDays {
		return contract.UsageDocument{}, ErrDays
	}
	b := builder{Moment: At(p, q.Now), Query: q, source: source, limits: map[*policy.Endpoint][]store.Limit{}}
	var all []store.Limit
	for plan, i := p.Plan(q.Plan), 0; i < len(p.Endpoints); i++ {
		if e := p.Endpoints[i]; plan.Lists(e) {
			b.limits[e] = plan.LimitsOf(e, q.Terms, q.Now)
			all = append(all, b.limits[e]...)
		}
	}
	if err := b.readRunning(ctx); err != nil {
		return contract.UsageDocument{}, err
	}
	first := b.Today.Day - calendar.Day(max(q.Days, 1)-1)
	used, credited, err := b.counts(ctx, first, all)
	if err != nil {
		return contract.UsageDocument{}, err
	}
	recent, err := source.Recent(ctx, q.Account, q.Now)
	if err != nil {
		return contract.UsageDocument{}, fmt.Errorf("reading recent calls: %w", err)
	}
	document := contract.UsageDocument{
		Account:     q.Account,
		Plan:        q.Plan,
		Timezone:    p.Calendar.Zone(),
		Day:         b.Today.Day.String(),
		ResetsAt:    b.Today.End,
		Endpoints:   []contract.UsageEndpoint{},
		Limits:      []contract.UsageLimit{},
		RecentCalls: b.calls(recent),
	}
	if q.Terms != nil && q.Now.Before(q.Terms.PlanUntil) {
		document.PlanUntil, document.Then = timeOrNil(q.Terms.PlanUntil), q.Terms.Then
	}
	b.addEndpoints(&document, used, credited)
	if err := b.addKeys(ctx, &document); err != nil {
		return contract.UsageDocument{}, err
	}
	if q.Days > 0 {
		document.Days = history(document.Endpoints, used, credited, first, b.Today.Day)
	}
	return document, nil
}

// Counts are what was used, by day and endpoint.
type Counts map[calendar.Day]map[string]int64

// Add adds a count under the name of today.
func (m Moment) Add(to Counts, n store.Count) {
	to.Of(n.Day)[m.names.Endpoints.Today(n.Endpoint)] += n.Used
}

// Of returns the counts of a day, to change them.
func (c Counts) Of(day calendar.Day) map[string]int64 {
	if c[day] == nil {
		c[day] = make(map[string]int64)
	}
	return c[day]
}

// counts returns what the account used since a day, and in the periods of limits,
// and what it was credited. It sets what limits of calls need.
func (b *builder) counts(ctx context.Context, first calendar.Day, limits []store.Limit) (used, credited Counts, err error) {
	since, hasTotal := b.First(limits, b.Terms)
	used, credited, b.number = Counts{}, Counts{}, Counts{}
	days := []calendar.Window{{First: min(first, since), Last: b.Today.Day}}
	if hasTotal {
		days = append(days, calendar.Window{First: store.TotalDay, Last: store.TotalDay})
	}
	for _, w := range days {
		list, err := b.source.CountsOfAccounts(ctx, []string{b.Account}, w.First, w.Last)
		if err == nil && slices.ContainsFunc(limits, func(l store.Limit) bool { return l.Calls }) {
			err = b.addCounts(ctx, b.number, store.CallsKey, w)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading counts: %w", err)
		}
		for _, c := range list {
			switch c.Key {
			case "":
				b.Add(used, c.Count)
			case store.Credited:
				b.Add(credited, c.Count)
			}
		}
	}
	return used, credited, nil
}

// readRunning reads the calls that run, if the plan limits them.
func (b *builder) readRunning(ctx context.Context) error {
	var names, lists []string
	for e := range b.limits {
		for _, l := range b.policy.Plan(b.Plan).AtOnce(e) {
			if !slices.Contains(names, l.Endpoint) {
				names, lists = append(names, l.Endpoint), append(lists, e.List(l))
			}
		}
	}
	if len(lists) == 0 {
		return nil
	}
	running, err := b.source.Running(ctx, b.Account, lists)
	if err != nil {
		return fmt.Errorf("reading running calls: %w", err)
	}
	b.running = map[string]int64{}
	for i, name := range names {
		b.running[name] = running[i]
	}
	return nil
}

// addCounts adds the counts of a key on some days.
func (b *builder) addCounts(ctx context.Context, to Counts, key string, days calendar.Window) error {
	list, err := b.source.Counts(ctx, b.Account, key, days.First, days.Last)
	for _, c := range list {
		b.Add(to, c)
	}
	return err
}

// addEndpoints adds the endpoints of the plan with their limits, and the
// limits of all endpoints together: those that cover the first endpoint.
func (b *builder) addEndpoints(document *contract.UsageDocument, used, credited Counts) {
	first := true
	for _, e := range b.policy.Endpoints {
		limits, listed := b.limits[e]
		if !listed {
			continue
		}
		row := contract.UsageEndpoint{
			Endpoint: e.Name, Method: e.Patterns[0].Method, Path: e.Patterns[0].Path, Unit: e.Unit,
			Used: used[b.Today.Day][e.Name], Credited: credited[b.Today.Day][e.Name], Limits: []contract.UsageLimit{},
		}
		row.Calls = row.Used + row.Credited
		for _, limit := range slices.Concat(limits, b.policy.Plan(b.Plan).AtOnce(e)) {
			shown := b.limit(limit, used)
			switch {
			case limit.Endpoint != store.All:
				row.Limits = append(row.Limits, shown)
				if limit.Period == store.Day && !limit.Calls {
					row.Limit, row.Remaining = new(limit.Number()), shown.Remaining
				}
			case first:
				document.Limits = append(document.Limits, shown)
			}
		}
		first = first && e.Usage
		document.Endpoints = append(document.Endpoints, row)
	}
}

// addKeys adds the limits of the calling key, or of all keys.
func (b *builder) addKeys(ctx context.Context, document *contract.UsageDocument) error {
	if b.Key != nil {
		key, err := b.key(ctx, b.Key)
		document.Key = &key
		return err
	}
	document.Keys = []contract.UsageKey{}
	for _, key := range b.Keys {
		if len(key.Limits) == 0 || !key.Live(b.Now) {
			continue
		}
		shown, err := b.key(ctx, &key.Key)
		if err != nil {
			return err
		}
		document.Keys = append(document.Keys, shown)
	}
	return nil
}

// key returns the limits of a key itself, and what was used of them.
func (b *builder) key(ctx context.Context, key *store.Key) (contract.UsageKey, error) {
	shown := contract.UsageKey{ID: key.ID, Name: key.Name, Limits: []contract.UsageKeyLimit{}}
	if len(key.Limits) == 0 {
		return shown, nil
	}
	used := Counts{}
	first, hasTotal := b.First(key.Limits, b.Terms)
	err := b.addCounts(ctx, used, key.CountsAs(), calendar.Window{First: first, Last: b.Today.Day})
	if err == nil && hasTotal {
		err = b.addCounts(ctx, used, key.CountsAs(), calendar.Window{First: store.TotalDay, Last: store.TotalDay})
	}
	if err != nil {
		return shown, fmt.Errorf("reading counts: %w", err)
	}
	for _, limit := range key.Limits {
		shown.Limits = append(shown.Limits, contract.UsageKeyLimit{Endpoint: limit.Endpoint, UsageLimit: b.Limit(limit, b.Terms, used)})
	}
	return shown, nil
}

// limit returns what was used of a limit of the plan.
func (b *builder) limit(l store.Limit, used Counts) contract.UsageLimit {
	if l.Period == store.Concurrent {
		n := b.running[l.Endpoint]
		return contract.UsageLimit{Period: l.Period.String(), Limit: l.Max, Used: &n, Remaining: new(max(0, l.Max-n)), Calls: true}
	}
	if l.Calls {
		used = b.number
	}
	return b.Limit(l, b.Terms, used)
}

// Limit returns what was used of a limit of an account with these terms. used has
// the counts of the days that First returns, of calls for a limit of these.
func (m Moment) Limit(limit store.Limit, terms *store.Terms, used Counts) contract.UsageLimit {
	shown := contract.UsageLimit{Period: limit.Period.String(), Limit: limit.Number(), Calls: limit.Calls}
	if limit.Period.IsPace() {
		return shown
	}
	days := m.window(&limit, terms)
	var sum int64
	for day := days.First; day <= days.Last; day++ {
		for endpoint, n := range used[day] {
			if endpoint == limit.Endpoint || limit.Endpoint == store.All && endpoint != m.except {
				sum += n
			}
		}
	}
	shown.Used, shown.Remaining = new(sum), new(max(0, shown.Limit-sum))
	if limit.Soft {
		shown.Soft, shown.Overage = &limit.Max, new(max(0, sum-limit.Included))
	}
	if limit.Period != store.Total {
		shown.PeriodStart, shown.ResetsAt = new(days.First.String()), new(m.policy.Calendar.Span(days).End)
		return shown
	}
	if p := terms.PrepaidOf(limit.Endpoint); p != nil && !limit.OfKey && !limit.Calls {
		now := *p
		now.TopUps = slices.Clone(p.TopUps)
		now.Settle(sum, time.Time{})
		for _, u := range now.TopUps {
			if u.Left > 0 {
				shown.TopUps = append(shown.TopUps, contract.TopUpLeft{Left: u.Left, ExpiresAt: timeOrNil(u.ExpiresAt)})
			}
		}
	}
	return shown
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (m Moment) calls(recent []store.Record) []contract.UsageCall {
	list := make([]contract.UsageCall, 0, len(recent))
	for _, r := range recent {
		list = append(list, contract.UsageCall{
			At:         contract.Millis{Time: r.At},
			Endpoint:   m.names.Endpoints.Today(r.Endpoint),
			Method:     r.Method,
			Path:       r.Path,
			Status:     r.Status,
			DurationMS: milliseconds(r.Duration),
			Key:        r.KeyName,
			KeyID:      r.Key,
			RequestID:  r.RequestID,
			Code:       r.Code,
			Cost:       r.Cost,
		})
	}
	return list
}

// milliseconds rounds to a microsecond: the clock is not more precise.
func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

func history(endpoints []contract.UsageEndpoint, used, credited Counts, first, last calendar.Day) []contract.UsageDay {
	days := make([]contract.UsageDay, 0, last-first+1)
	for day := first; day <= last; day++ {
		shown := contract.UsageDay{Day: day.String(), Calls: make(map[string]int64, len(endpoints)), Credited: map[string]int64{}}
		for _, e := range endpoints {
			n := credited[day][e.Endpoint]
			if shown.Calls[e.Endpoint] = used[day][e.Endpoint] + n; n > 0 {
				shown.Credited[e.Endpoint] = n
			}
		}
		days = append(days, shown)
	}
	return days
}
