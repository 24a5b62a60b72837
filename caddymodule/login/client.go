package login

// clientState is the log of a client's attempts at one instant: the rule per
// client as a value, without a store.
type clientState struct {
	limits   Limits
	attempts times // within the window
}

// newClientState returns the state at an instant. It takes over the list.
func newClientState(limits Limits, attempts times, instant int64) *clientState {
	return &clientState{limits, attempts.after(instant - int64(limits.Window))}
}

// opens is the instant from which the rule admits the client.
func (c *clientState) opens() int64 {
	n := len(c.attempts)
	if n < c.limits.PerClient {
		return 0
	}
	return c.attempts[n-c.limits.PerClient] + int64(c.limits.Window)
}

// add counts an attempt.
func (c *clientState) add(at int64) { c.attempts = append(c.attempts, at) }

// release takes an attempt back.
func (c *clientState) release(at int64) { c.attempts = without(c.attempts, at) }

// expires is the instant from which no attempt counts.
func (c *clientState) expires() int64 { return c.attempts.last() + int64(c.limits.Window) }
