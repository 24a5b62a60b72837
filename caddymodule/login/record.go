package login

import (
	"encoding/binary"
	"slices"
	"time"
)

// maxKnown is how many clients an account knows at a time; the one that
// logged in longest ago makes room. Phones change their addresses often,
// but only a success adds a client.
const maxKnown = 16

// trail holds the instants of attempts in ascending order. A client's trail
// has all its attempts, that of a known client its failures.
type trail []int64

func readTrail(into trail, body []byte) trail {
	for ; len(body) >= 8; body = body[8:] {
		into = append(into, int64(binary.LittleEndian.Uint64(body)))
	}
	return into
}

func (t trail) appendTo(body []byte) []byte {
	for _, at := range t {
		body = binary.LittleEndian.AppendUint64(body, uint64(at))
	}
	return body
}

// after returns what is later than an instant.
func (t trail) after(instant int64) trail {
	return t[len(t)-countAfter(t, instant):]
}

func countAfter(t trail, instant int64) int {
	for i, at := range t {
		if at > instant {
			return len(t) - i
		}
	}
	return 0
}

// remembered returns the failures since none came for so long. There may be
// such a gap within the trail, where an attempt was taken back.
func (t trail) remembered(instant int64, forget time.Duration) trail {
	next := instant
	for i, at := range slices.Backward(t) {
		if at+int64(forget) <= next {
			return t[i+1:]
		}
		next = at
	}
	return t
}

// without removes one attempt.
func (t trail) without(at int64) trail {
	if i := slices.Index(t, at); i >= 0 {
		return slices.Delete(t, i, i+1)
	}
	return t
}

func (t trail) last() int64 {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1]
}

// failure is a failed or pending attempt of a stranger at an account.
type failure struct {
	at int64
	by tag
}

const failureSize = 8 + len(tag{})

// ledger holds an account's failures in ascending order.
type ledger []failure

func readLedger(into ledger, body []byte) ledger {
	for ; len(body) >= failureSize; body = body[failureSize:] {
		into = append(into, failure{
			at: int64(binary.LittleEndian.Uint64(body)),
			by: tag(body[8:failureSize]),
		})
	}
	return into
}

func (l ledger) appendTo(body []byte) []byte {
	for _, entry := range l {
		body = binary.LittleEndian.AppendUint64(body, uint64(entry.at))
		body = append(body, entry.by[:]...)
	}
	return body
}

// remembered is what it is for a trail.
func (l ledger) remembered(instant int64, forget time.Duration) ledger {
	next := instant
	for i, entry := range slices.Backward(l) {
		if entry.at+int64(forget) <= next {
			return l[i+1:]
		}
		next = entry.at
	}
	return l
}

// without removes one failure.
func (l ledger) without(entry failure) ledger {
	if i := slices.Index(l, entry); i >= 0 {
		return slices.Delete(l, i, i+1)
	}
	return l
}

// withoutAll removes all failures of one client.
func (l ledger) withoutAll(by tag) ledger {
	return slices.DeleteFunc(l, func(entry failure) bool { return entry.by == by })
}

func (l ledger) last() int64 {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)-1].at
}

// acquaintance is a client that logged in to an account.
type acquaintance struct {
	by       tag
	since    int64 // the latest success
	failures trail // those after it
}

const acquaintanceSize = len(tag{}) + 8 + 2

// circle holds the clients that an account knows.
type circle []acquaintance

func (c circle) appendTo(body []byte) []byte {
	for _, known := range c {
		body = append(body, known.by[:]...)
		body = binary.LittleEndian.AppendUint64(body, uint64(known.since))
		body = binary.LittleEndian.AppendUint16(body, uint16(len(known.failures)))
		body = known.failures.appendTo(body)
	}
	return body
}

// readCircle reports false if the body ends within a client.
func readCircle(body []byte) (c circle, whole bool) {
	for len(body) > 0 {
		if len(body) < acquaintanceSize {
			return nil, false
		}
		known := acquaintance{
			by:    tag(body[:len(tag{})]),
			since: int64(binary.LittleEndian.Uint64(body[len(tag{}):])),
		}
		size := 8 * int(binary.LittleEndian.Uint16(body[acquaintanceSize-2:]))
		body = body[acquaintanceSize:]
		if len(body) < size {
			return nil, false
		}
		known.failures = readTrail(nil, body[:size])
		c = append(c, known)
		body = body[size:]
	}
	return c, true
}

func (c circle) find(by tag) *acquaintance {
	for i := range c {
		if c[i].by == by {
			return &c[i]
		}
	}
	return nil
}

// welcome notes a success. It starts the client's failures afresh.
func (c circle) welcome(by tag, at int64) circle {
	c = slices.DeleteFunc(c, func(known acquaintance) bool { return known.by == by })
	if len(c) >= maxKnown {
		oldest := 0
		for i := range c {
			if c[i].since < c[oldest].since {
				oldest = i
			}
		}
		c = slices.Delete(c, oldest, oldest+1)
	}
	return append(c, acquaintance{by: by, since: at})
}

// lastSuccess is when the most recent client logged in.
func (c circle) lastSuccess() int64 {
	var last int64
	for _, known := range c {
		last = max(last, known.since)
	}
	return last
}
