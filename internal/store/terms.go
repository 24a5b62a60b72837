package store

import (
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

// Terms are what an account has beside the limits of its plan. A nil Terms has
// nothing.
type Terms struct {
	// Overrides has at most one for each endpoint and period, at most
	// MaxOverrides. It has expired ones, too.
	Overrides []Override `cbor:"5,keyasint,omitempty" json:"overrides,omitempty"`
	// Billing says when the months of the account begin.
	Billing Billing `cbor:"7,keyasint,omitzero" json:"billing,omitzero"`
	// PlanUntil is when the plan of the account ends and Then is its plan. It is
	// zero for a plan without an end.
	PlanUntil time.Time `cbor:"8,keyasint,omitzero" json:"plan_until,omitzero"`
	Then      string    `cbor:"9,keyasint,omitempty" json:"then,omitempty"`
	// Prepaid has one for each endpoint, or All, with top-ups.
	Prepaid []Prepaid `cbor:"10,keyasint,omitempty" json:"prepaid,omitempty"`
}

// IsZero tells whether an account has only its plan.
func (t *Terms) IsZero() bool {
	return t == nil || len(t.Overrides)+len(t.Prepaid) == 0 && t.Billing == Billing{} && t.PlanUntil.IsZero()
}

// Clone returns a copy that shares nothing.
func (t *Terms) Clone() Terms {
	c := *t
	c.Overrides, c.Prepaid = slices.Clone(t.Overrides), slices.Clone(t.Prepaid)
	for i := range c.Prepaid {
		c.Prepaid[i].TopUps = slices.Clone(t.Prepaid[i].TopUps)
	}
	return c
}

// Plan returns the plan of an account with a plan at an instant.
func (t *Terms) Plan(plan string, now time.Time) string {
	if t == nil || t.PlanUntil.IsZero() || now.Before(t.PlanUntil) {
		return plan
	}
	return t.Then
}

// Month returns the days of the account's month on a day.
func (t *Terms) Month(day calendar.Day) calendar.Window {
	if t == nil {
		return day.MonthFrom(1)
	}
	return t.Billing.Month(day)
}

// Until returns the first instant from now on at which the terms change by
// themselves, zero for never.
func (t *Terms) Until(now time.Time) (until time.Time) {
	if t == nil {
		return until
	}
	sooner := func(end time.Time) {
		if now.Before(end) && (until.IsZero() || end.Before(until)) {
			until = end
		}
	}
	sooner(t.PlanUntil)
	for i := range t.Overrides {
		sooner(t.Overrides[i].ExpiresAt)
	}
	for i := range t.Prepaid {
		for _, u := range t.Prepaid[i].TopUps {
			sooner(u.ExpiresAt)
		}
	}
	return until
}

// Lapsed tells whether a top-up has ended that the terms still have. Then
// Prepaid.Settle has to be called before the next call.
func (t *Terms) Lapsed(now time.Time) bool {
	return t != nil && slices.ContainsFunc(t.Prepaid, func(p Prepaid) bool {
		return slices.ContainsFunc(p.TopUps, func(u TopUp) bool { return u.ended(now) })
	})
}

// PrepaidOf returns what the account has of an endpoint or All beside the limit of
// its plan, nil for nothing.
func (t *Terms) PrepaidOf(endpoint string) *Prepaid {
	if t == nil {
		return nil
	}
	for i := range t.Prepaid {
		if t.Prepaid[i].Endpoint == endpoint {
			return &t.Prepaid[i]
		}
	}
	return nil
}

// Billing is the day on which the months of an account begin. The zero Billing
// has the months of the calendar.
type Billing struct {
	// Day is 1 to 31, or 0 like 1. In a shorter month, the last day takes its place.
	Day int `cbor:"1,keyasint,omitempty" json:"day,omitempty"`
	// Running is the month in which Day was set: it goes on until the day before
	// the first such day that is behind the day of the change. It is zero if the
	// account had no other Day before.
	Running calendar.Window `cbor:"2,keyasint,omitzero" json:"running,omitzero"`
	// Before is the Day of the months before Running.
	Before int `cbor:"3,keyasint,omitempty" json:"before,omitempty"`
}

// Month returns the days of the month on a day.
func (b Billing) Month(day calendar.Day) calendar.Window {
	switch {
	case b.Running == calendar.Window{}, day > b.Running.Last:
		return day.MonthFrom(max(1, b.Day))
	case day < b.Running.First:
		return day.MonthFrom(max(1, b.Before))
	}
	return b.Running
}

// Change returns the billing of an account that gets another day today. What runs
// ends on no earlier day than tomorrow, and grants nothing twice.
func (b Billing) Change(day int, today calendar.Day) Billing {
	if max(1, day) == max(1, b.Day) {
		return b
	}
	running, before := calendar.Window{First: b.Month(today).First, Last: today}, b.Day
	if b.Running.Has(today) {
		before = b.Before
	}
	if month := (today + 1).MonthFrom(day); month.First <= today {
		running.Last = month.Last
	}
	return Billing{day, running, before}
}

// Prepaid is the calls of an endpoint, or of All, that an account has beside the
// number of its plan: a limit with the Period Total. The counter of such a limit
// only tells what was used. A Prepaid tells of which calls: of the plan, or of a
// top-up.
type Prepaid struct {
	Endpoint string `cbor:"1,keyasint" json:"endpoint"`
	// Counted is what the limit had used when the members below were set. What is
	// used since is of the top-up that ends first, then of the next one, then of
	// the plan.
	Counted int64 `cbor:"2,keyasint,omitempty" json:"counted,omitempty"`
	// Used is what was used of the plan's number.
	Used int64 `cbor:"3,keyasint,omitempty" json:"used,omitempty"`
	// TopUps are those that have not ended, the one that ends first is the first.
	TopUps []TopUp `cbor:"4,keyasint,omitempty" json:"topups,omitempty"`
	// Since is when the last top-up was added.
	Since time.Time `cbor:"5,keyasint,omitzero" json:"since,omitzero"`
}

// TopUp is calls that were added to a total.
type TopUp struct {
	// Calls is how many were added, and Left how many of them were left when
	// Prepaid.Counted was set, by their cost.
	Calls     int64     `cbor:"1,keyasint" json:"calls"`
	Left      int64     `cbor:"2,keyasint,omitempty" json:"left,omitempty"`
	ExpiresAt time.Time `cbor:"3,keyasint,omitzero" json:"expires_at,omitzero"` // zero for never
}

func (u TopUp) ended(now time.Time) bool { return !u.ExpiresAt.IsZero() && !now.Before(u.ExpiresAt) }

// Max returns the limit with top-ups: what the counter may reach if the plan gives
// so much.
func (p *Prepaid) Max(plan int64) int64 {
	if p == nil || plan == Unlimited {
		return plan
	}
	most := Sum(p.Counted, max(0, plan-p.Used))
	for _, u := range p.TopUps {
		most = Sum(most, u.Left)
	}
	return most
}

// Settle says of which calls was what the counter has counted since the last time,
// and drops the top-ups that have ended. What was given back goes to the plan, then
// to the top-up that ends last.
func (p *Prepaid) Settle(counted int64, now time.Time) {
	used := counted - p.Counted
	p.Counted = counted
	for i := range p.TopUps {
		if of := &p.TopUps[i]; used > 0 {
			n := min(used, of.Left)
			of.Left, used = of.Left-n, used-n
		}
	}
	if back := min(-used, p.Used); back > 0 {
		p.Used, used = p.Used-back, used+back
	}
	for i := range slices.Backward(p.TopUps) {
		if of := &p.TopUps[i]; used < 0 {
			n := min(-used, of.Calls-of.Left)
			of.Left, used = of.Left+n, used+n
		}
	}
	p.Used += used
	p.TopUps = slices.DeleteFunc(p.TopUps, func(u TopUp) bool { return u.ended(now) })
}

// Add adds a top-up. Call Settle before it. All that never end are one.
func (p *Prepaid) Add(u TopUp, now time.Time) {
	u.Left, p.Since = u.Calls, now
	if n := len(p.TopUps); n > 0 && u.ExpiresAt.IsZero() && p.TopUps[n-1].ExpiresAt.IsZero() {
		last := &p.TopUps[n-1]
		last.Calls, last.Left = Sum(last.Calls, u.Calls), Sum(last.Left, u.Calls)
		return
	}
	at := slices.IndexFunc(p.TopUps, func(other TopUp) bool {
		return other.ExpiresAt.IsZero() || !u.ExpiresAt.IsZero() && u.ExpiresAt.Before(other.ExpiresAt)
	})
	if at < 0 {
		at = len(p.TopUps)
	}
	p.TopUps = slices.Insert(p.TopUps, at, u)
}
