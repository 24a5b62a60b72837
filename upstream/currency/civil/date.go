// Package civil has calendar days without a clock or a zone.
//
// An exchange rate belongs to a day, not to an instant: the European Central
// Bank publishes "the rates of 13 April". A time.Time has a zone, and two
// values of one day can be unequal. A Date has four bytes and is compared
// with <.
package civil

import (
	"errors"
	"fmt"
	"time"
)

// ErrDate is the cause of every error about text that is not a date.
var ErrDate = errors.New("not a date of the form YYYY-MM-DD")

// Date is a day of the proleptic Gregorian calendar, counted so that
// 0001-01-01 is 1. The zero Date means no day (see IsZero). Dates are
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
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() == 0 {
		return 0, fmt.Errorf("%.32q: %w", s, ErrDate)
	}
	return Of(t), nil
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
