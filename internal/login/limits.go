package login

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Bounds of the limits. They keep cells below maxCell, and prevent overflow.
const (
	maxPerClient = 1000
	maxFree      = 256
	maxWait      = 24 * time.Hour
	maxKeep      = 366 * 24 * time.Hour
)

// ErrLimits is wrapped by the error for limits that are out of bounds.
var ErrLimits = errors.New("login limit out of bounds")

// Limits are the numbers of both rules. Each attempt has its own, because a
// limiter outlives configurations. A zero field means its default; no rule
// can be turned off.
type Limits struct {
	// Strict keeps successful attempts in the log of the client. Otherwise
	// they move to a second log of four times PerClient, while that has
	// room.
	Strict bool
	// PerClient is how many attempts one client has in any Window: 1 to
	// 1000, 5 by default.
	PerClient int
	// Window is the length of the sliding window: a second to a day, one
	// minute by default.
	Window time.Duration
	// Free is how many failures of an account cost no wait:
	// 1 to 256, 10 by default.
	Free int
	// FirstWait is the wait after the last free failure: a second to a
	// day, 30 s by default. Each further failure doubles it.
	FirstWait time.Duration
	// MaxWait is the longest wait: FirstWait to a day, 15 minutes by
	// default.
	MaxWait time.Duration
	// Forget is how long after the last failure all are forgotten: MaxWait
	// to 366 days, 12 hours by default.
	Forget time.Duration
	// KnownFor is how long a client is known after a success: a second to
	// 366 days, 30 days by default.
	KnownFor time.Duration
}

// Validate returns an error that wraps ErrLimits and names the first limit
// that is out of bounds.
func (l Limits) Validate() error {
	_, err := l.resolve()
	return err
}

// resolve replaces zero fields by their defaults and validates all.
func (l Limits) resolve() (Limits, error) {
	l.PerClient = cmp.Or(l.PerClient, 5)
	l.Window = cmp.Or(l.Window, time.Minute)
	l.Free = cmp.Or(l.Free, 10)
	l.FirstWait = cmp.Or(l.FirstWait, 30*time.Second)
	l.MaxWait = cmp.Or(l.MaxWait, 15*time.Minute)
	l.Forget = cmp.Or(l.Forget, 12*time.Hour)
	l.KnownFor = cmp.Or(l.KnownFor, 30*24*time.Hour)
	switch {
	case l.PerClient < 1 || l.PerClient > maxPerClient:
		return l, fmt.Errorf("%w: %d attempts per client, want 1 to %d", ErrLimits, l.PerClient, maxPerClient)
	case l.Window < time.Second || l.Window > maxWait:
		return l, fmt.Errorf("%w: window of %v, want %v to %v", ErrLimits, l.Window, time.Second, maxWait)
	case l.Free < 1 || l.Free > maxFree:
		return l, fmt.Errorf("%w: %d free failures per account, want 1 to %d", ErrLimits, l.Free, maxFree)
	case l.FirstWait < time.Second || l.FirstWait > maxWait:
		return l, fmt.Errorf("%w: first wait of %v, want %v to %v", ErrLimits, l.FirstWait, time.Second, maxWait)
	case l.MaxWait < l.FirstWait || l.MaxWait > maxWait:
		return l, fmt.Errorf("%w: longest wait of %v, want %v to %v", ErrLimits, l.MaxWait, l.FirstWait, maxWait)
	case l.Forget < l.MaxWait || l.Forget > maxKeep:
		return l, fmt.Errorf("%w: failures forgotten after %v, want %v to %v", ErrLimits, l.Forget, l.MaxWait, maxKeep)
	case l.KnownFor < time.Second || l.KnownFor > maxKeep:
		return l, fmt.Errorf("%w: clients known for %v, want %v to %v", ErrLimits, l.KnownFor, time.Second, maxKeep)
	}
	return l, nil
}

// wait is how long an account refuses attempts after its last failure.
func (l Limits) wait(failures int) time.Duration {
	if failures < l.Free {
		return 0
	}
	wait := l.FirstWait
	for range failures - l.Free {
		if wait >= l.MaxWait {
			break
		}
		wait *= 2
	}
	return min(wait, l.MaxWait)
}

// spare is how many failures are kept beyond those that the longest wait
// needs. An account with the longest wait can have spare+1 attempts in
// flight and all of them abandoned, without a shorter wait as the result.
const spare = 4

// mostFailures is how many failures are kept. Older ones change no wait.
func (l Limits) mostFailures() int {
	failures := l.Free + spare
	for wait := l.FirstWait; wait < l.MaxWait; wait *= 2 {
		failures++
	}
	return failures
}
