package gate_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// modelTerms are the plan of the account and when it ends, the day on which its
// months begin, and its top-ups.
type modelTerms struct {
	plan, then string
	until      time.Time // zero for a plan without an end
	billing    int       // the first one
	billings   []billingChange
	prepaid    []*modelPrepaid
	topUps     []time.Time // the ends of all
}

// billingChange is in force from the day after it.
type billingChange struct {
	on calendar.Day
	to int
}

// modelPrepaid is a total with top-ups, as it was when its counter had counted.
type modelPrepaid struct {
	endpoint string
	units    storetest.Units
	counted  int64
}

func (t *modelTerms) planAt(now time.Time) string {
	if t.until.IsZero() || now.Before(t.until) {
		return t.plan
	}
	return t.then
}

// billingDay is the one that was set before a day.
func (t *modelTerms) billingDay(day calendar.Day) (billing int) {
	billing = t.billing
	for _, change := range t.billings {
		if change.on < day {
			billing = change.to
		}
	}
	return billing
}

// month returns the month around a day: it began on the last day that was a billing
// day when it came, and goes on until the next one.
func (t *modelTerms) month(day calendar.Day) calendar.Window {
	w := calendar.Window{First: day, Last: day}
	for !storetest.Begins(t.billingDay(w.First), w.First) {
		w.First--
	}
	for !storetest.Begins(t.billingDay(day+1), w.Last+1) {
		w.Last++
	}
	return w
}

// changes tells whether the terms change from one instant to another.
func (t *modelTerms) changes(from, to time.Time) bool {
	return slices.ContainsFunc(append([]time.Time{t.until}, t.topUps...), func(end time.Time) bool { return end.After(from) && !end.After(to) })
}

// most is what the counter of a total may reach, with a number of the plan.
func (m *model) most(endpoint string, plan int64) int64 {
	for _, p := range m.prepaid {
		if p.endpoint == endpoint {
			return p.counted + p.units.Left(plan)
		}
	}
	return plan
}

// event says of which top-ups is what was used since the last event.
func (m *model) event(p *modelPrepaid, now time.Time) {
	var counter int64
	for _, c := range m.life().Totals("") {
		if c.Endpoint == p.endpoint || p.endpoint == store.All && c.Endpoint != policy.UsageEndpoint {
			counter += c.Used
		}
	}
	p.units.Use(max(0, counter-p.counted))
	p.units.GiveBack(max(0, p.counted-counter))
	p.units.Event(now)
	p.counted = counter
}

func (m *model) topUp(endpoint string, calls int64, end, now time.Time) {
	at := slices.IndexFunc(m.prepaid, func(p *modelPrepaid) bool { return p.endpoint == endpoint })
	if at < 0 {
		at = len(m.prepaid)
		m.prepaid = append(m.prepaid, &modelPrepaid{endpoint: endpoint})
	}
	m.event(m.prepaid[at], now)
	m.prepaid[at].units.Add(calls, end)
	m.topUps = append(m.topUps, end)
}

// endTopUps is what a gate does before a call: if a top-up of one total has ended,
// it is an event of all.
func (m *model) endTopUps(now time.Time) {
	if !slices.ContainsFunc(m.prepaid, func(p *modelPrepaid) bool { return p.units.Lapsed(now) }) {
		return
	}
	for _, p := range m.prepaid {
		m.event(p, now)
	}
}

func (s *simulation) billingDay() int {
	return rapid.SampledFrom([]int{1, 1, 2, 15, 29, 30, 31}).Draw(s.T, "billing day")
}

// setPlan sets the plan, sometimes with an end.
func (s *simulation) setPlan() {
	plan := rapid.SampledFrom([]string{"one", "two"})
	m := s.model
	m.plan, m.then, m.until = plan.Draw(s.T, "plan"), "", time.Time{}
	if rapid.Bool().Draw(s.T, "until") {
		m.then, m.until = plan.Draw(s.T, "then"), s.world.now.Add(1+s.step())
	}
	s.changeAccount(func(a *store.Account) { a.Plan, a.Then, a.PlanUntil = m.plan, m.then, m.until })
}

// changeTerms changes the billing day, or adds a top-up.
func (s *simulation) changeTerms() {
	m, now := s.model, s.world.now
	if rapid.Bool().Draw(s.T, "billing") {
		change := billingChange{s.today(), s.billingDay()}
		m.billings = append(m.billings, change)
		s.changeAccount(func(a *store.Account) { a.Billing = a.Billing.Change(change.to, change.on) })
		return
	}
	t := book.TopUp{Endpoint: rapid.SampledFrom([]string{"convert", "history", store.All}).Draw(s.T, "endpoint"), Calls: rapid.Int64Range(1, 20).Draw(s.T, "calls")}
	if rapid.IntRange(0, 3).Draw(s.T, "ends") > 0 {
		t.ExpiresAt = now.Add(1 + s.step())
	}
	m.topUp(t.Endpoint, t.Calls, t.ExpiresAt, now)
	id := fmt.Sprint(len(m.topUps))
	for range 2 { // once for an id
		_, _, err := s.db.TopUp(context.Background(), now, s.account, id, t, policy.UsageEndpoint, func(*book.Account) error { return nil }, func(*book.Account) {})
		s.must(err)
	}
}
