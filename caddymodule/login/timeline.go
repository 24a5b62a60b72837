package login

import (
	"sync"
	"time"
)

// tolerance is how far a reading may lie behind the latest one without
// being taken for a clock that was set back. Calls that overtake each other
// stay well below it; were each of them taken for a step, the timeline
// would run ahead of the world a little each time.
const tolerance = time.Minute

// lastReading is where readings end, 2200-01-01. It leaves instants 60
// years below the end of int64, so that one absurd reading cannot stop
// time.
var lastReading = time.Unix(7_258_118_400, 0)

// timeline turns readings of a wall clock into instants, in nanoseconds
// since 1970, that never decrease.
type timeline struct {
	mu sync.Mutex
	// latest is the latest instant handed out, or restored from disk.
	latest int64
	// offset is what readings lack since the clock was set back.
	offset int64
}

// at returns the instant of a reading, and the reading itself on the same
// scale. They differ while a clock that was set back a little catches up.
func (l *timeline) at(now time.Time) (instant, reading int64) {
	switch {
	case now.Before(time.Unix(0, 0)):
		now = time.Unix(0, 0)
	case now.After(lastReading):
		now = lastReading
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	reading = now.UnixNano() + l.offset
	if behind := l.latest - reading; behind > int64(tolerance) {
		l.offset += behind
		reading = l.latest
	}
	l.latest = max(l.latest, reading)
	return l.latest, reading
}

// resume makes an instant that was read from disk the latest.
func (l *timeline) resume(instant int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = max(l.latest, instant)
}

// wall returns what the clock shows at an instant.
func (l *timeline) wall(instant int64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Unix(0, instant-l.offset).UTC()
}
