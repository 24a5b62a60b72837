package login

import "time"

// tolerance is how far the clock may be behind the latest time of a cell
// before it counts as set back. Clocks of concurrent calls, and of servers that
// replace each other, differ by much less.
const tolerance = time.Minute

// moment is where the clock is, on the scale of a cell's times.
type moment struct {
	instant int64 // at which the attempt counts: not before the latest time
	reading int64 // of the clock
	back    int64 // how far the times of the cell move back
}

// place compares the clock with the latest time of a cell. A clock that is a
// little behind catches up. If it is further behind, it was set back, or another
// server took over: then the times move back, so that the latest one is now. No
// window opens early by that, and no client waits longer than the rule and the
// tolerance.
func place(now time.Time, latest int64) moment {
	reading := nanoseconds(now)
	if back := latest - reading; back > int64(tolerance) {
		return moment{reading, reading, back}
	}
	return moment{instant: max(reading, latest), reading: reading}
}

// moveBack moves a time to the past, but not before 1970.
func (m moment) moveBack(at *int64) { *at = max(0, *at-m.back) }

func (m moment) setBack() bool { return m.back > 0 }

// until is how long a client waits for an instant.
func (m moment) until(opens int64) time.Duration {
	if opens <= m.instant {
		return 0
	}
	return time.Duration(opens - m.reading)
}

// lastReading is the latest reading that counts, 2200-01-01: 60 years below the
// end of int64.
var lastReading = time.Unix(7_258_118_400, 0)

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
