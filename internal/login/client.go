package login

import (
	"slices"
	"time"
)

// successesPerAttempt is how many successful attempts a client has in its
// second log, for each attempt of PerClient.
const successesPerAttempt = 4

// clientState is the log of a client at one moment: the rule per client as a
// value, without a store.
type clientState struct {
	moment
	limits    Limits
	attempts  times
	successes times // those that no longer count as attempts
}

// newClientState reads the cell of a client.
func newClientState(limits Limits, cell Cell) (*clientState, error) {
	c := &clientState{limits: limits}
	if len(cell.Value) > 0 {
		r := readCell(cell.Value)
		c.attempts, c.successes = r.times(), r.times()
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	if c.moment = place(cell.Now, c.latest()); c.setBack() {
		for _, t := range []times{c.attempts, c.successes} {
			for i := range t {
				c.moveBack(&t[i])
			}
		}
	}
	oldest := c.instant - int64(limits.Window)
	c.attempts, c.successes = c.attempts.after(oldest), c.successes.after(oldest)
	return c, nil
}

func (c *clientState) latest() int64 { return max(c.attempts.last(), c.successes.last()) }

func (c *clientState) wait() time.Duration {
	n := len(c.attempts)
	if n < c.limits.PerClient {
		return 0
	}
	return c.until(c.attempts[n-c.limits.PerClient] + int64(c.limits.Window))
}

func (c *clientState) add() mark {
	c.attempts = append(c.attempts, c.instant)
	return mark{at: c.instant}
}

func (c *clientState) release(m mark) { c.attempts = without(c.attempts, m.at) }

// succeed moves the attempt to the log of successes, if that has room. It does
// nothing if the attempt is older than the window.
func (c *clientState) succeed(m mark) {
	if len(c.successes) >= c.limits.PerClient*successesPerAttempt || !slices.Contains(c.attempts, m.at) {
		return
	}
	c.release(m)
	i, _ := slices.BinarySearch(c.successes, m.at)
	c.successes = slices.Insert(c.successes, i, m.at)
}

func (c *clientState) change() Change {
	change := Change{Class: ClientClass, Expires: time.Unix(0, c.latest()+int64(c.limits.Window))}
	if c.latest() > 0 {
		value := append(slices.Grow([]byte(nil), 5+8*(len(c.attempts)+len(c.successes))), cellVersion)
		change.Value = c.successes.appendTo(c.attempts.appendTo(value))
	}
	return change
}

// without deletes a value from a list, once.
func without[S ~[]E, E comparable](list S, value E) S {
	if i := slices.Index(list, value); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
