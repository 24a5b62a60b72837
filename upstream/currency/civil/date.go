// Package civil holds calendar days without a clock or a zone.
//
// An exchange rate belongs to a day, not to an instant: the European
// Central Bank publishes "the rates of 13 April", and which instants that
// covers depends on nobody's zone. A time.Time would drag a zone along and
// make two equal days unequal, so days have a type of their own, small
// enough (four bytes) to be kept by the thousand and to be compared with <.
package civil

import (
	"errors"
	"fmt"
	"time"
)

// ErrDate is wrapped by every error about text that is not a date.
var ErrDate = errors.New("not a date of the form YYYY-MM-DD")

// Date is a day of the proleptic Gregorian calendar, counted so that
// 0001-01-01 is 1. The zero Date is no day at all (see IsZero). Dates are
// ordered by <, and d+n is the day n days after d.
type Date int32

// epoch is the number of days from 0001-01-01, counted as 1, to the Unix
// epoch, so that Unix day 0 is Date(epoch).
const epoch = 719163

const secondsPerDay = 24 * 60 * 60

// New returns the day of that year, month and day of month. Values outside
// their ranges overflow into the next month or year as in time.Date.
func New(year int, month time.Month, day int) Date {
	return Of(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

// Of returns the day that t falls on in t's own location.
func Of(t time.Time) Date {
	_, offset := t.Zone()
	seconds := t.Unix() + int64(offset)
	days := seconds / secondsPerDay
	if seconds%secondsPerDay < 0 {
		days--
	}
	return Date(days + epoch)
}

// Parse reads exactly YYYY-MM-DD: ten ASCII characters, a real day, year 1
// to 9999. Its error wraps ErrDate.
func Parse(s string) (Date, error) {
	year, month, day, ok := split(s)
	if !ok || year == 0 {
		return 0, fmt.Errorf("%.32q: %w", s, ErrDate)
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	// time.Date turns 30 February into 2 March: a day that does not come
	// back as it was given does not exist.
	if t.Month() != time.Month(month) || t.Day() != day {
		return 0, fmt.Errorf("%.32q: %w", s, ErrDate)
	}
	return Of(t), nil
}

// split takes the three numbers out of the text, digits and dashes checked.
func split(s string) (year, month, day int, ok bool) {
	if len(s) != len("2006-01-02") || s[4] != '-' || s[7] != '-' {
		return 0, 0, 0, false
	}
	number := func(from, to int) int {
		n := 0
		for i := from; i < to; i++ {
			if s[i] < '0' || s[i] > '9' {
				return -1
			}
			n = n*10 + int(s[i]-'0')
		}
		return n
	}
	year, month, day = number(0, 4), number(5, 7), number(8, 10)
	return year, month, day, year >= 0 && month > 0 && day > 0
}

// Time returns the first instant of the day in UTC.
func (d Date) Time() time.Time {
	return time.Unix((int64(d)-epoch)*secondsPerDay, 0).UTC()
}

// Weekday returns the day of the week.
func (d Date) Weekday() time.Weekday {
	return time.Weekday(int64(d) % 7)
}

// IsZero reports whether d is no day.
func (d Date) IsZero() bool { return d == 0 }

// String returns YYYY-MM-DD, or nothing for the zero Date.
func (d Date) String() string {
	if d == 0 {
		return ""
	}
	return d.Time().Format(time.DateOnly)
}

// MarshalText writes what String returns.
func (d Date) MarshalText() ([]byte, error) {
	return []byte(d.String()), nil
}

// UnmarshalText reads what Parse reads, and nothing as the zero Date.
func (d *Date) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = 0
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
