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

// Span returns the month of an instant for Month, and its day for other periods.
func (p Period) Span(of *calendar.Calendar, at time.Time) *calendar.Span {
	if p == Month {
		return of.Month(at)
	}
	return of.At(at)
}
