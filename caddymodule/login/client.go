package login

import (
	"encoding/binary"
	"slices"
)

// successesPerAttempt is how many successful attempts a client has in its
// second log, for each attempt of PerClient.
const successesPerAttempt = 4

// clientLog has the attempts of a client, oldest first.
type clientLog struct {
	attempts  times
	successes times // those that no longer count as attempts
}

// readClientLog returns false if the body is damaged. A success has the highest
// bit set.
func readClientLog(body []byte) (c clientLog, valid bool) {
	for _, at := range readTimes(body) {
		switch {
		case at < 0:
			c.successes = append(c.successes, at&^successBit)
		case len(c.successes) > 0:
			return clientLog{}, false
		default:
			c.attempts = append(c.attempts, at)
		}
	}
	return c, len(body)%8 == 0
}

const successBit = -1 << 63

func (c clientLog) appendTo(body []byte) []byte {
	body = c.attempts.appendTo(body)
	for _, at := range c.successes {
		body = binary.LittleEndian.AppendUint64(body, uint64(at)|1<<63)
	}
	return body
}

// latest is the latest instant in both logs.
func (c clientLog) latest() int64 { return max(c.attempts.last(), c.successes.last()) }

func (c clientLog) moveBack(by int64) {
	c.attempts.moveBack(by)
	c.successes.moveBack(by)
}

// clientState is the log of a client at one instant: the rule per client as a
// value, without a store.
type clientState struct {
	limits Limits
	clientLog
}

// newClientState returns the state at an instant. It takes over the lists.
func newClientState(limits Limits, log clientLog, instant int64) *clientState {
	begins := instant - int64(limits.Window)
	return &clientState{limits, clientLog{log.attempts.after(begins), log.successes.after(begins)}}
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

// succeed moves an attempt to the log of successes, if that has room. It does
// nothing if the attempt is older than the window.
func (c *clientState) succeed(at int64) {
	if len(c.successes) >= c.limits.PerClient*successesPerAttempt || !slices.Contains(c.attempts, at) {
		return
	}
	c.release(at)
	i, _ := slices.BinarySearch(c.successes, at)
	c.successes = slices.Insert(c.successes, i, at)
}

// expires is the instant from which no attempt counts.
func (c *clientState) expires() int64 { return c.latest() + int64(c.limits.Window) }
