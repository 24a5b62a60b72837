package store

import "time"

// Clock is the clock of a store that several gates share. If a store has this
// interface, the gate takes the time from it, and the paces of the store follow
// it instead of Call.At.
type Clock interface {
	// Now returns the current time.
	Now() time.Time
	// Since returns the time since an instant of Now.
	Since(t time.Time) time.Duration
}
