// Package calendar finds the calendar day of an instant in a time zone, and when
// days, weeks and months begin and end there.
//
// A day ends at midnight: the first instant whose calendar date in the zone
// is later than today's. Neither adding 24 hours nor
// time.Date(y, m, d+1, 0, …) finds it in all zones. São Paulo skipped 00:00
// each spring, so the day began at 01:00. In St. John's clocks went back at
// 00:01 to 23:01 of the day before, so there were two midnights. Samoa
// skipped the whole of 2011-12-30. Between two transitions, the offset of a
// zone is constant and midnight is plain arithmetic;
// [time.Time.ZoneBounds] has the next transition. A week or a month is a Window of
// days: it ends with its last day.
//
// ParseDuration reads a length of time in days of 24 hours.
package calendar

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	// A container often has no zone files. Embedded ones are the fallback.
	_ "time/tzdata"
)

// ErrZone means that a zone's name is empty or "Local", which depends on
// the machine. Counts of calls must not depend on it.
var ErrZone = errors.New(`the time zone must be named, as "UTC" or "Europe/Berlin"`)

// lookBack is longer than any date lasts, in seconds. Two offsets of one
// zone were never more than 24 hours apart, so a date lasts at most 48 hours
// when clocks go back (as almost in Sitka in 1867).
const lookBack = 72 * 60 * 60

// initial matches the letters that are capitals in the names of most zones.
var initial = regexp.MustCompile(`(^|[/_-])[a-z]`)

// never is the instant of a transition that does not exist.
const never = math.MaxInt64

// Span is a window of days in a zone.
type Span struct {
	// Day is the first day, and Last the last one.
	Day, Last Day
	// Start is when the first day begins: of a day that At returns, the instant
	// since which it lasts without a break.
	Start time.Time
	// End is midnight: the first instant whose date is later than Last.
	End time.Time
}

// Window returns the days of the span.
func (s *Span) Window() Window { return Window{s.Day, s.Last} }

// Length returns the length of the span. A day has usually 24 hours, 23 or 25
// where clocks change, and other lengths at rare changes.
func (s *Span) Length() time.Duration {
	return s.End.Sub(s.Start)
}

// RetryAfter returns the whole seconds from now to the end of the span,
// rounded up and at least 1: a client that waits that long is in a later
// span. Midnight is a whole second, so counting from the beginning of the
// current second rounds up.
func (s *Span) RetryAfter(now time.Time) int64 {
	return max(s.End.Unix()-now.Unix(), 1)
}

// Calendar has the days of one time zone. It is safe for concurrent use.
type Calendar struct {
	location *time.Location
	// today caches the last result of At: nearly all calls ask for it.
	today atomic.Pointer[run]
	// month caches the last result of Month, and spans those of Span.
	month atomic.Pointer[month]
	spans [64]atomic.Pointer[Span]
}

// month is the month of the calendar around a day.
type month struct {
	day  Day
	span *Span
}

// run is a period with one date and no break. Where there are two midnights, a
// span ends after its run: for a minute it is tomorrow, and then today again.
type run struct {
	start, end int64 // in Unix seconds; all transitions are whole ones
	span       *Span
}

// New returns the calendar of an IANA time zone such as "Europe/Berlin".
// It returns [ErrZone] for the empty name and for "Local".
func New(zone string) (*Calendar, error) {
	if zone == "" || zone == "Local" {
		return nil, fmt.Errorf("%w, not %q", ErrZone, zone)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		for _, name := range []string{strings.ToUpper(zone), initial.ReplaceAllStringFunc(strings.ToLower(zone), strings.ToUpper)} {
			if _, unknown := time.LoadLocation(name); unknown == nil && name != "Local" {
				return nil, fmt.Errorf("%w: did you mean %s?", err, name)
			}
		}
		return nil, fmt.Errorf(`%w: use a name of the IANA time zone database, such as "UTC" or "Europe/Berlin"`, err)
	}
	return In(location), nil
}

// In returns the calendar of a zone.
func In(zone *time.Location) *Calendar { return &Calendar{location: zone} }

// Zone returns the name of the calendar's zone.
func (c *Calendar) Zone() string {
	return c.location.String()
}

// At returns the day of t. The times of the span are in the calendar's
// zone. Callers share the span and must not change it.
func (c *Calendar) At(t time.Time) *Span {
	sec := t.Unix()
	if known := c.today.Load(); known != nil && known.start <= sec && sec < known.end {
		return known.span
	}
	found := c.find(sec)
	c.today.Store(found)
	return found.span
}

// Month returns the month of the calendar around a day. Callers share the span and
// must not change it.
func (c *Calendar) Month(day Day) *Span {
	if known := c.month.Load(); known != nil && known.day == day {
		return known.span
	}
	span := c.Span(day.MonthFrom(1))
	c.month.Store(&month{day, span})
	return span
}

// Span returns when the days of a window begin and end. Callers share the span
// and must not change it.
func (c *Calendar) Span(w Window) *Span {
	cache := &c.spans[(uint32(w.First)*31+uint32(w.Last))%uint32(len(c.spans))]
	if known := cache.Load(); known != nil && known.Window() == w {
		return known
	}
	found := &Span{Day: w.First, Last: w.Last, Start: c.EndOf(w.First - 1), End: c.EndOf(w.Last)}
	cache.Store(found)
	return found
}

// EndOf returns when a day ends: the first instant whose date is later. The zone
// can skip that midnight, or the whole day.
func (c *Calendar) EndOf(day Day) time.Time {
	const before = 48 * 60 * 60 // the day has begun in no zone
	return c.instant(c.after(int64(day)*secondsPerDay-before, day))
}

// after returns the first instant whose date is later than a day. sec is before it.
func (c *Calendar) after(sec int64, day Day) int64 {
	for c.day(sec) <= day {
		sec = c.runEnd(sec)
	}
	return sec
}

func (c *Calendar) instant(sec int64) time.Time { return time.Unix(sec, 0).In(c.location) }

// find goes through the runs around sec: from a run that is over to the run
// of sec, and on to the first run of a later day.
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
	return &run{start: start, end: end, span: &Span{Day: day, Last: day, Start: c.instant(start), End: c.instant(c.after(end, day))}}
}

// runEnd returns the first instant after sec with another date, which may
// be an earlier one.
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

// offset returns the zone's offset at sec, in seconds east of UTC, and an
// instant until which it stays the same.
//
// It uses only the end that ZoneBounds returns. The start can be wrong: in
// the year of a zone's last recorded transition it comes from a rule that
// began later. The end is a day early in leap years, where Go's rule has 365
// days: on the last day it is not after sec, and the offset stays the same
// to the end of that day in UTC.
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
