package store

import (
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

// Clock is the clock of a store that several gates share. If a store has this
// interface, the gate takes the time from it, and the paces of the store follow
// it instead of Call.At.
type Clock interface {
	// Now returns the current time.
	Now() time.Time
	// Since returns the time since an instant of Now.
	Since(t time.Time) time.Duration
}

// TotalDay is the day on which calls count for limits with the Period Total. No
// call is made on it: it is the last day that a date can have.
var TotalDay = mustDay("9999-12-31")

func mustDay(text string) calendar.Day {
	day, err := calendar.ParseDay(text)
	if err != nil {
		panic(err)
	}
	return day
}

// Span returns the week, the month or the day around an instant of who has no month
// of its own.
func (p Period) Span(of *calendar.Calendar, at time.Time) *calendar.Span {
	day := of.At(at)
	switch p {
	case Month:
		return of.Month(day.Day)
	case Week:
		return of.Span(day.Day.Week())
	}
	return day
}

// Window returns the days whose counts add up to what a limit has used: day, if it
// is not a week, a month or a total. month has the days of the account's month.
func (p Period) Window(day calendar.Day, month calendar.Window) calendar.Window {
	switch p {
	case Week:
		return day.Week()
	case Month:
		return month
	case Total:
		return calendar.Window{First: TotalDay, Last: TotalDay}
	}
	return calendar.Window{First: day, Last: day}
}
