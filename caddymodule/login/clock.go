package login

import (
	"sync"
	"time"
)

// tolerance is how far a reading may lie behind the latest one before the
// clock counts as set back. Readings of concurrent calls differ by much
// less. Without a tolerance, each of them would count as a step and move the
// clock ahead of the wall clock.
const tolerance = time.Minute

// lastReading is the latest reading that the clock uses, 2200-01-01. It is
// 60 years below the end of int64, so one absurd reading cannot stop time.
var lastReading = time.Unix(7_258_118_400, 0)

// clock turns readings of the wall clock into instants, in nanoseconds since
// 1970, that never decrease.
type clock struct {
	mu sync.Mutex
	// latest is the latest instant returned, or restored from disk.
	latest int64
	// offset is added to readings since the wall clock was set back.
	offset int64
}

// at returns the instant of a reading, and the reading on the same scale.
// They differ while a wall clock that was set back a little catches up.
func (c *clock) at(now time.Time) (instant, reading int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reading = nanoseconds(now) + c.offset
	if behind := c.latest - reading; behind > int64(tolerance) {
		c.offset += behind
		reading = c.latest
	}
	c.latest = max(c.latest, reading)
	return c.latest, reading
}

// nanoseconds returns a reading in nanoseconds since 1970, within bounds.
func nanoseconds(now time.Time) int64 {
	switch {
	case now.Before(time.Unix(0, 0)):
		now = time.Unix(0, 0)
	case now.After(lastReading):
		now = lastReading
	}
	return now.UnixNano()
}

// resume moves the clock to an instant that was read from disk.
func (c *clock) resume(instant int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = max(c.latest, instant)
}

// wall returns what the wall clock shows at an instant.
func (c *clock) wall(instant int64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Unix(0, instant-c.offset).UTC()
}
