package calendar

import (
	"fmt"
	"time"
)

const (
	secondsPerDay = 24 * 60 * 60
	dayLayout     = time.DateOnly
)

// Day is a civil day without a time zone: the number of days since
// 1970-01-01. d+1 is the day after d, and d-29 is the first of the thirty
// days that end with d.
type Day int32

// ParseDay reads a day that is written as YYYY-MM-DD.
func ParseDay(text string) (Day, error) {
	t, err := time.Parse(dayLayout, text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a date such as 2026-11-20", text)
	}
	return Day(t.Unix() / secondsPerDay), nil
}

// UTCDay returns the day of an instant in UTC.
func UTCDay(at time.Time) Day { return dayOf(at.Unix(), 0) }

// String returns the day as YYYY-MM-DD.
func (d Day) String() string {
	return d.UTC().Format(dayLayout)
}

// MarshalText implements encoding.TextMarshaler.
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Day) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDay(string(text))
	return err
}

// Month returns the first and the last day of the month of d.
func (d Day) Month() (first, last Day) {
	t := d.UTC()
	next := time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	return d - Day(t.Day()-1), Day(next.Unix()/secondsPerDay) - 1
}

// Window is the days from First to Last, both included.
type Window struct {
	First Day `cbor:"1,keyasint" json:"first"`
	Last  Day `cbor:"2,keyasint" json:"last"`
}

// Has tells whether a day is in the window.
func (w Window) Has(d Day) bool { return w.First <= d && d <= w.Last }

// Week returns the days from Monday to Sunday around d.
func (d Day) Week() Window {
	const mondayToThursday = 3 // 1970-01-01 was a Thursday
	sinceMonday := ((d+mondayToThursday)%7 + 7) % 7
	return Window{d - sinceMonday, d - sinceMonday + 6}
}

// MonthFrom returns the days around d from a day of the month, 1 to 31, to the
// day before the next such day. In a shorter month, the last day takes its place.
func (d Day) MonthFrom(ofMonth int) Window {
	first, last := d.Month()
	begin := func(first, last Day) Day { return min(first+Day(ofMonth-1), last) }
	if own := begin(first, last); d >= own {
		return Window{own, begin((last + 1).Month()) - 1}
	}
	return Window{begin((first - 1).Month()), begin(first, last) - 1}
}

// UTC returns the midnight in UTC with which d begins.
func (d Day) UTC() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// dayOf returns the local day of an instant: sec is in seconds since 1970,
// and offset in seconds east of UTC.
func dayOf(sec, offset int64) Day {
	local := sec + offset
	day := local / secondsPerDay
	if local%secondsPerDay < 0 {
		day--
	}
	return Day(day)
}
