package storetest

import (
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

// Units are the calls of a total with top-ups, each apart. Those of the plan have
// no number: the plan says how many of them may be used.
type Units struct {
	topUps []*unit // that have not ended
	// taken are those that were used since the last event, and back those that were
	// given back and were used before it. A nil one is of the plan.
	taken, back []*unit
	plan        int64 // how many of the plan are used
}

// unit is one call of a top-up.
type unit struct {
	end  time.Time // zero for never
	used bool
}

// before tells whether a unit ends before another one.
func (u *unit) before(other *unit) bool {
	return !u.end.IsZero() && (other.end.IsZero() || u.end.Before(other.end))
}

func (u *unit) ended(now time.Time) bool { return !u.end.IsZero() && !u.end.After(now) }

func pop(list *[]*unit) (last *unit) {
	n := len(*list) - 1
	last, *list = (*list)[n], (*list)[:n]
	return last
}

// Add adds a top-up. Call Event before it.
func (u *Units) Add(calls int64, end time.Time) {
	for range calls {
		u.topUps = append(u.topUps, &unit{end: end})
	}
}

// Use uses calls: what was given back since the last event, then of the top-up that
// ends first, then of the plan.
func (u *Units) Use(calls int64) {
	for range calls {
		var next *unit
		if len(u.back) > 0 {
			next = pop(&u.back)
		} else {
			for _, one := range u.topUps {
				if !one.used && (next == nil || one.before(next)) {
					next = one
				}
			}
			u.taken = append(u.taken, next)
		}
		u.set(next, true)
	}
}

// GiveBack gives calls back: what was taken last since the last event, then what
// was used of the plan, and of the top-up that ends last. What was used of top-ups
// that have ended goes to the plan.
func (u *Units) GiveBack(calls int64) {
	for range calls {
		var last *unit
		if len(u.taken) > 0 {
			last = pop(&u.taken)
		} else {
			for _, one := range u.topUps {
				if u.plan <= 0 && one.used && (last == nil || last.before(one)) {
					last = one
				}
			}
			u.back = append(u.back, last)
		}
		u.set(last, false)
	}
}

func (u *Units) set(one *unit, used bool) {
	switch {
	case one != nil:
		one.used = used
	case used:
		u.plan++
	default:
		u.plan--
	}
}

// Event ends the top-ups whose end is over, with what is left of them.
func (u *Units) Event(now time.Time) {
	u.taken, u.back = nil, nil
	u.topUps = slices.DeleteFunc(u.topUps, func(one *unit) bool { return one.ended(now) })
}

// Lapsed tells whether the end of a top-up is over.
func (u *Units) Lapsed(now time.Time) bool {
	return slices.ContainsFunc(u.topUps, func(one *unit) bool { return one.ended(now) })
}

// Left returns what is left with a number of the plan. What was used above it, and
// is given back, is there until the next event.
func (u *Units) Left(plan int64) int64 {
	var left int64
	for _, one := range u.back {
		if one == nil {
			left++
		}
	}
	left += max(0, plan-u.plan-left)
	for _, one := range u.topUps {
		if !one.used {
			left++
		}
	}
	return left
}

// Begins tells whether a month with a billing day begins on a day.
func Begins(billingDay int, day calendar.Day) bool {
	today, tomorrow := day.UTC(), (day + 1).UTC()
	return today.Day() == billingDay || today.Day() < billingDay && tomorrow.Day() == 1
}
