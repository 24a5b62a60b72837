package storetest

import (
	"time"
	"unsafe"
)

// Step returns t as time.Now returns it after a step of the clock: the time of
// day differs by whole seconds, and the monotonic reading does not. Package
// time has no function that does so.
func Step(t time.Time, by time.Duration) time.Time {
	// See the comment in the source of time.Time: the first field has a flag
	// for the monotonic reading, 33 bits of seconds and 30 bits of nanoseconds.
	const hasMonotonic, secondsAt = 1 << 63, 30
	wall := (*uint64)(unsafe.Pointer(&t)) // the type is that of the first field
	if *wall&hasMonotonic == 0 {
		panic("the time has no monotonic reading")
	}
	*wall += uint64(by/time.Second) << secondsAt
	return t
}
