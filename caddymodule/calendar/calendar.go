// Package calendar tells which calendar day an instant belongs to in a
// time zone, when that day began, and when midnight ends it.
//
// Midnight is the first instant whose calendar date in the zone is later
// than today's. Neither adding 24 hours nor time.Date(y, m, d+1, 0, …)
// finds it everywhere: in São Paulo 00:00 used to be skipped each spring,
// so that the day began at 01:00; in St. John's clocks went back at 00:01
// to 23:01 of the day before, so that midnight came twice; Samoa left out
// the whole of 2011-12-30. So nothing is guessed here. A zone's offset is
// constant between two of its transitions, where midnight is plain
// arithmetic, and [time.Time.ZoneBounds] tells where the next one is.
package calendar

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	// A container often has no zone files. The embedded ones are the
	// fallback, so that a zone which worked in a test works there too.
	_ "time/tzdata"
)

// ErrZone means that a zone's name is empty or "Local". Both would mean
// something else on another machine: a count of calls must not depend on
// where it is made.
var ErrZone = errors.New(`the time zone must be named, as "UTC" or "Europe/Berlin"`)

// lookBack is further back than any date lasts. Two offsets of one zone
// were never more than 24 hours apart, so that clocks which go back make
// a date at most 48 hours long (Sitka in 1867 came close).
const lookBack = 72 * 60 * 60

// never stands for the instant of a transition that does not come.
const never = math.MaxInt64

// Span is a calendar day as it passes in a zone.
type Span struct {
	// Day is the date.
	Day Day
	// Start is the first instant from which on, without a break, the
	// date has been Day.
	Start time.Time
	// End is midnight: the first instant whose date is later than Day.
	End time.Time
}

// Length returns how long the day lasts: 24 hours as a rule, 23 or 25
// where clocks change, and other lengths at rarer changes.
func (s *Span) Length() time.Duration {
	return s.End.Sub(s.Start)
}

// RetryAfter returns the whole seconds from now to the end of the span,
// rounded up and at least 1: whoever waits that long finds a later day.
// Midnight is a whole second, so to round up is to count from the second
// that now is in.
func (s *Span) RetryAfter(now time.Time) int64 {
	return max(s.End.Unix()-now.Unix(), 1)
}

// Calendar knows the days of one time zone. It is safe for concurrent
// use.
type Calendar struct {
	location *time.Location
	// current remembers the day that was asked for last, since nearly
	// all calls ask for the same one: today.
	current atomic.Pointer[run]
}

// run is an unbroken stretch of time with one date. Where midnight comes
// twice, a span's end lies behind the end of its run: for a minute it is
// tomorrow, and then today again.
type run struct {
	start, end int64 // in Unix seconds; all transitions are whole ones
	span       *Span
}

// New returns the calendar of an IANA time zone such as "Europe/Berlin".
// The empty name and "Local" are refused with [ErrZone].
func New(zone string) (*Calendar, error) {
	if zone == "" || zone == "Local" {
		return nil, fmt.Errorf("%w, not %q", ErrZone, zone)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("loading the time zone: %w", err)
	}
	return &Calendar{location: location}, nil
}

// Zone returns the name of the calendar's zone.
func (c *Calendar) Zone() string {
	return c.location.String()
}

// At returns the day that t belongs to. The times of the span are in the
// calendar's zone. It is shared by all who ask for that day, and must not
// be written to.
func (c *Calendar) At(t time.Time) *Span {
	sec := t.Unix()
	if known := c.current.Load(); known != nil && known.start <= sec && sec < known.end {
		return known.span
	}
	found := c.find(sec)
	c.current.Store(found)
	return found.span
}

// find walks through the runs around sec: from one that is surely over to
// the one that sec is in, and on to the first of a later date.
func (c *Calendar) find(sec int64) *run {
	day := c.day(sec)
	start := sec - lookBack
	for c.day(start) == day {
		start -= lookBack
	}
	end := c.runEnd(start)
	for end <= sec {
		start, end = end, c.runEnd(end)
	}
	midnight := end
	for c.day(midnight) <= day {
		midnight = c.runEnd(midnight)
	}
	return &run{
		start: start,
		end:   end,
		span: &Span{
			Day:   day,
			Start: time.Unix(start, 0).In(c.location),
			End:   time.Unix(midnight, 0).In(c.location),
		},
	}
}

// runEnd returns the first instant after sec with another date than the
// one at sec, which may be an earlier date.
func (c *Calendar) runEnd(sec int64) int64 {
	day := c.day(sec)
	for {
		offset, transition := c.offset(sec)
		midnight := (int64(day)+1)*secondsPerDay - offset
		if midnight < transition {
			return midnight
		}
		sec = transition
		if c.day(sec) != day {
			return sec
		}
	}
}

func (c *Calendar) day(sec int64) Day {
	_, offset := time.Unix(sec, 0).In(c.location).Zone()
	return dayOf(sec, int64(offset))
}

// offset returns the zone's offset at sec, in seconds east of UTC, and
// until when at least it stays the same.
//
// ZoneBounds is relied on for the end of a zone alone. Its start is not
// always one: in the year of a zone's last recorded transition it comes
// from a rule that did not hold before it. And its end is a day early at
// the end of leap years, when the rule is taken to reach 365 days: on
// their last day it is not behind sec, and the offset holds to the end of
// that day in UTC.
func (c *Calendar) offset(sec int64) (offset, until int64) {
	t := time.Unix(sec, 0).In(c.location)
	_, east := t.Zone()
	_, end := t.ZoneBounds()
	switch {
	case end.IsZero():
		return int64(east), never
	case end.Unix() <= sec:
		return int64(east), (int64(dayOf(sec, 0)) + 1) * secondsPerDay
	default:
		return int64(east), end.Unix()
	}
}
