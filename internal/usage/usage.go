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
}

// Query is what Build needs to know.
type Query struct {
	Account   string
	Plan      string // of the account
	Overrides []store.Override
	// Key is the calling key, or nil. With a Key, the document has its limits.
	Key *store.Key
	// Keys are keys of the account. Without a Key, the document has the
	// limits of those that are live and have limits.
	Keys []*store.StoredKey
	Now  time.Time
	// Days is the length of the history, including today, or 0 for none.
	Days int
}

// Moment is the day and the month of an instant, whose counts limits cover.
type Moment struct {
	Today      *calendar.Span
	MonthFirst calendar.Day
	month      *calendar.Span
	except     string // the endpoint that limits of all endpoints do not cover
	names      store.Names
}

// At returns the moment of an instant.
func At(p *policy.Policy, now time.Time) Moment {
	m := Moment{Today: p.Calendar.At(now), month: p.Calendar.Month(now), except: p.Except(), names: p.Names}
	m.MonthFirst, _ = m.Today.Day.Month()
	return m
}

// builder has what all parts of a document need.
type builder struct {
	Moment
	Query
	policy *policy.Policy
	source Source
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
	b := builder{At(p, q.Now), q, p, source}
	first := b.Today.Day - calendar.Day(max(q.Days, 1)-1)
	used, credited, err := b.counts(ctx, min(first, b.MonthFirst))
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
	b.addEndpoints(&document, used, credited)
	if err := b.addKeys(ctx, &document); err != nil {
		return contract.UsageDocument{}, err
	}
	if q.Days > 0 {
		document.Days = history(document.Endpoints, used, credited, first, b.Today.Day)
	}
	return document, nil
}

// Limits returns what was used of some limits of q.Account and, if they are
// OfKey, of q.Key.
func Limits(ctx context.Context, p *policy.Policy, source Source, q Query, limits []store.Limit) ([]contract.UsageLimit, error) {
	b := builder{At(p, q.Now), q, p, source}
	used, _, err := b.counts(ctx, b.MonthFirst)
	ofKey := Counts{}
	if err == nil && q.Key != nil {
		ofKey, err = b.countsOfKey(ctx, q.Key.CountsAs())
	}
	if err != nil {
		return nil, err
	}
	shown := make([]contract.UsageLimit, len(limits))
	for i, limit := range limits {
		if shown[i] = b.Limit(limit, used); limit.OfKey {
			shown[i] = b.Limit(limit, ofKey)
		}
	}
	return shown, nil
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

// counts reads what the account used, and what it was credited, from a day until
// today.
func (b *builder) counts(ctx context.Context, first calendar.Day) (used, credited Counts, err error) {
	list, err := b.source.CountsOfAccounts(ctx, []string{b.Account}, first, b.Today.Day)
	if err != nil {
		return nil, nil, fmt.Errorf("reading counts: %w", err)
	}
	used, credited = Counts{}, Counts{}
	for _, c := range list {
		switch c.Key {
		case "":
			b.Add(used, c.Count)
		case store.Credited:
			b.Add(credited, c.Count)
		}
	}
	return used, credited, nil
}

// countsOfKey reads what a key used from the first day of the month until today.
func (b *builder) countsOfKey(ctx context.Context, key string) (Counts, error) {
	list, err := b.source.Counts(ctx, b.Account, key, b.MonthFirst, b.Today.Day)
	if err != nil {
		return nil, fmt.Errorf("reading counts: %w", err)
	}
	used := Counts{}
	for _, c := range list {
		b.Add(used, c)
	}
	return used, nil
}

// addEndpoints adds the endpoints of the plan with their limits, and the
// limits of all endpoints together: those that cover the first endpoint.
func (b *builder) addEndpoints(document *contract.UsageDocument, used, credited Counts) {
	plan, first := b.policy.Plan(b.Plan), true
	for _, e := range b.policy.Endpoints {
		if !plan.Lists(e) {
			continue
		}
		row := contract.UsageEndpoint{
			Endpoint: e.Name, Method: e.Patterns[0].Method, Path: e.Patterns[0].Path,
			Used: used[b.Today.Day][e.Name], Credited: credited[b.Today.Day][e.Name], Limits: []contract.UsageLimit{},
		}
		row.Calls = row.Used + row.Credited
		for _, limit := range plan.LimitsOf(e, b.Overrides, b.Now) {
			shown := b.Limit(limit, used)
			switch {
			case limit.Endpoint != store.All:
				row.Limits = append(row.Limits, shown)
				if limit.Period == store.Day {
					row.Limit, row.Remaining = new(limit.Max), shown.Remaining
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
	used, err := b.countsOfKey(ctx, key.CountsAs())
	if err != nil {
		return shown, err
	}
	for _, limit := range key.Limits {
		shown.Limits = append(shown.Limits, contract.UsageKeyLimit{Endpoint: limit.Endpoint, UsageLimit: b.Limit(limit, used)})
	}
	return shown, nil
}

// Limit returns a limit, and what was used of it. After a change to a smaller
// limit, more can be used than the limit; then nothing remains.
func (m Moment) Limit(limit store.Limit, used Counts) contract.UsageLimit {
	shown := contract.UsageLimit{Period: limit.Period.String(), Limit: limit.Max}
	span, first := m.Today, m.Today.Day
	switch {
	case limit.Period.IsPace():
		return shown
	case limit.Period == store.Month:
		span, first = m.month, m.MonthFirst
	}
	var sum int64
	for day := first; day <= m.Today.Day; day++ {
		for endpoint, n := range used[day] {
			if endpoint == limit.Endpoint || limit.Endpoint == store.All && endpoint != m.except {
				sum += n
			}
		}
	}
	shown.Used, shown.Remaining, shown.ResetsAt = new(sum), new(max(0, limit.Max-sum)), new(span.End)
	return shown
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
