package gate

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// entitlement is what a plan gives to an endpoint, with caches of header
// fields and refusals that most calls have in common.
type entitlement struct {
	endpoint *policy.Endpoint
	plan     *policy.Plan // nil without one

	policy    atomic.Pointer[policyField]
	exhausted atomic.Pointer[exhaustion]
}

// endTopUps has the store take what is left of top-ups that have ended, and reads
// the grant again.
func (c *Call) endTopUps() *refusal.Refusal {
	if err := c.store.EndTopUps(c.request.Context(), c.grant.Account, c.gate.except, c.began); err != nil {
		return c.gate.storeFailed(err, c.credential.IsIdentity(), c.logAttrs()...)
	}
	if f := c.renew(true); f != nil {
		return f
	}
	if c.grant.Terms.Lapsed(c.began) { // one ended just now
		return refusal.Changed
	}
	return nil
}

// newRooms returns the memory for the rooms of the call's limits.
func (c *Call) newRooms() []store.Room {
	if len(c.limits) > len(c.roomMemory) {
		return make([]store.Room, len(c.limits))
	}
	return c.roomMemory[:len(c.limits)]
}

// readRooms reads the rooms of the limits, and counts nothing.
func (c *Call) readRooms() error {
	rooms := c.newRooms()
	n := c.limitsOfStore()
	if err := c.store.Rooms(c.request.Context(), c.storeCall(), c.limits[:n], rooms[:n]); err != nil {
		return err
	}
	last := c.limitsOfPeriods()
	if _, err := c.askAddress(rooms[n:last], true); err != nil {
		return err
	}
	if _, err := c.enter(rooms[last:], true); err != nil {
		return err
	}
	c.rooms = rooms
	return nil
}

// storeCall returns the call as the store counts it. The decision about it ends
// with the day, the key or the terms of the account, whichever is first.
func (c *Call) storeCall() store.Call {
	call := store.Call{
		Account: c.grant.Account, Endpoint: c.endpoint.ID, At: c.began, Day: c.day.Day, Month: c.month().Window(), Cost: c.cost,
		Handle: c.grant.Handle, Version: c.grant.Version, Until: c.day.End,
	}
	if !c.endpoint.Usage {
		call.Except = c.gate.except
	}
	if own := c.grant.Restriction; own != nil && len(own.Limits) > 0 {
		call.Key = own.CountsAs
	}
	if key := c.grant.Until; !key.IsZero() && key.Before(call.Until) {
		call.Until = key
	}
	if end := c.grant.Terms.Until(c.began); !end.IsZero() && end.Before(call.Until) {
		call.Until = end
	}
	return call
}

// span returns the period of a quota of the call, but not of a total.
func (c *Call) span(period store.Period) *calendar.Span {
	switch period {
	case store.Week:
		return c.gate.Policy.Calendar.Span(c.day.Day.Week())
	case store.Month:
		return c.month()
	}
	return c.day
}

// month returns the month of the account.
func (c *Call) month() *calendar.Span {
	if t := c.grant.Terms; t != nil && t.Billing != (store.Billing{}) {
		return c.gate.Policy.Calendar.Span(t.Month(c.day.Day))
	}
	return c.gate.Policy.Calendar.Month(c.day.Day)
}

// lacks tells whether a limit has no room for the call.
func (c *Call) lacks(limit int) bool {
	return c.rooms[limit].Remaining < c.limits[limit].Weight(c.cost)
}

// isRefused tells whether a limit has no room for the call.
func (c *Call) isRefused() bool {
	for i := range c.limits {
		if c.lacks(i) {
			return true
		}
	}
	return false
}

// hasEvents tells whether an admitted call can make an event.
func (c *Call) hasEvents() bool {
	return len(c.gate.Policy.Warn) > 0 || slices.ContainsFunc(c.limits, func(l store.Limit) bool { return l.Soft })
}

// warn reports the quotas of the account that have reached a percentage of the
// option warn, the soft ones that are used up, and those that have no room for a
// cost of refused. What calls in progress hold is not used yet.
func (c *Call) warn(rooms []store.Room, held []int64, refused int64) {
	for i := range c.limits {
		l := &c.limits[i]
		if l.OfKey || l.OfAddress || l.Period.IsPace() || l.Period == store.Concurrent {
			continue
		}
		left, number := leftOf(rooms, held, i), l.Number()
		used := l.Max - max(0, left)
		q := store.Quota{Account: c.grant.Account, Plan: c.grant.Plan, Endpoint: l.Endpoint, Period: l.Period, Calls: l.Calls, Limit: number, Used: used, At: c.began}
		if l.Period != store.Total {
			span := c.span(l.Period)
			q.Start, q.End = span.Start, span.End
		} else if p := c.grant.Terms.PrepaidOf(l.Endpoint); p != nil {
			q.Start = p.Since
		}
		for _, q.Threshold = range c.gate.Policy.Warn {
			if number == 0 || used*100 < int64(q.Threshold)*number {
				break // the percentages are ascending
			}
			c.gate.Reporter.Reached(q)
		}
		q.Threshold = 0
		if q.Soft = l.Soft && used > 0 && used >= number; q.Soft {
			c.gate.Reporter.Reached(q)
		}
		if q.Soft = false; refused > 0 && left < l.Weight(refused) {
			q.Limit = l.Max
			c.gate.Reporter.Reached(q)
		}
	}
}

// leftOf is what a limit admits if calls in progress give all back.
func leftOf(rooms []store.Room, held []int64, limit int) int64 {
	left := rooms[limit].Remaining - rooms[limit].Over
	if held != nil {
		left += held[limit]
	}
	return left
}

// exhaustion is the cached refusal of a call that costs 1 and has one limit,
// that of the plan. Within a second, it is the same for all accounts on the
// plan.
type exhaustion struct {
	day     *calendar.Span
	seconds int64
	refusal *refusal.Refusal
}

// exceeded refuses a call that a limit does not admit, and reports the limit. If
// calls in progress can hold a part of the limits of another call, it looks again
// with a reservation, and returns nil if there is room now.
func (c *Call) exceeded() *refusal.Refusal {
	defer c.forgetReservation()
	if c.mark.reservation == nil && c.gate.reserves && slices.ContainsFunc(c.limits, c.canHold) {
		call := c.storeCall()
		c.mark.reservation = c.gate.Reservations.begin(&call)
		c.gate.Reservations.decided(c.mark.reservation, false)
		if err := c.readRooms(); err != nil {
			return c.gate.storeFailed(err, c.credential.IsIdentity(), c.logAttrs()...)
		}
		if !c.isRefused() {
			return nil
		}
	}
	held := c.held(c.rooms, c.mark.reservation)
	c.warn(c.rooms, held, c.cost)
	if held != nil || !c.planOnly || len(c.limits) != 1 || c.limits[0].Period.IsPace() || c.limits[0].Period >= store.Total || c.cost != 1 {
		return c.longestRefusal(held)
	}
	seconds := c.day.RetryAfter(c.began)
	last := c.exhausted.Load()
	if last == nil || last.day != c.day || last.seconds != seconds {
		last = &exhaustion{c.day, seconds, c.longestRefusal(nil)}
		c.exhausted.Store(last)
	}
	return last.refusal
}

// reservedWait is the wait for calls in progress, which can end at any time.
const reservedWait = 2 * time.Second

// concurrentWait is the wait for one of the calls at once to end.
const concurrentWait = time.Second

// longestRefusal returns the refusal for the limit with the longest wait: a
// client that waits that long is admitted, unless it waits for calls in progress.
// Of equal waits, the longer period decides, then the account: its limits are
// before those of the key.
func (c *Call) longestRefusal(held []int64) *refusal.Refusal {
	var longest store.Limit
	var wait time.Duration
	var reserved bool
	var end time.Time
	for i, limit := range c.limits {
		if !c.lacks(i) {
			continue
		}
		w := time.Duration(math.MaxInt64)
		onlyReserved := leftOf(c.rooms, held, i) >= limit.Weight(c.cost)
		resets := c.span(limit.Period).End
		switch {
		case limit.Period.IsPace():
			w = limit.Wait(c.rooms[i], limit.Weight(c.cost))
		case limit.OfAddress: // the clock of its cell can be ahead
			w = c.rooms[i].Full
			resets = c.mark.address.At.Add(w).In(resets.Location())
		case limit.Period == store.Concurrent:
			w = concurrentWait
		case limit.Period != store.Total:
			w = resets.Sub(c.began)
		}
		if onlyReserved && !limit.Period.IsPace() && !limit.OfAddress {
			w = min(w, reservedWait)
		}
		if w > wait || w == wait && limit.Period > longest.Period {
			longest, wait, reserved, end = limit, w, onlyReserved, resets
		}
	}
	return refusal.Exceeded(longest, c.gate.Policy.UnitOf(c.endpoint, &longest), reserved, wait, end, c.rateLimitPolicy(), strings.Clone(c.rateLimit()), c.credential.IsAnonymous(), c.gate.Policy.Docs)
}

// policyField is a RateLimit-Policy field. It changes with the length of the day,
// the week and the month. The day determines the others, unless the account has a
// billing day.
type policyField struct {
	day   *calendar.Span
	value string
}

// rateLimitPolicy is the field RateLimit-Policy
// (draft-ietf-httpapi-ratelimit-headers). It has the number of each limit, what it
// counts unless that is calls, and the length of its period in seconds.
func (c *Call) rateLimitPolicy() string {
	kept := c.planOnly && c.mark.taking == nil // without the limits of calls at once
	if last := c.policy.Load(); kept && last != nil && last.day == c.day {
		return last.value
	}
	var b []byte
	for i := range c.limits {
		limit := &c.limits[i]
		b = appendItem(b, i, limit)
		b = strconv.AppendInt(append(b, ";q="...), min(limit.Number(), maxInteger), 10)
		if unit := c.gate.Policy.UnitOf(c.endpoint, limit); unit != "" {
			b = append(append(append(b, `;qu="`...), unit...), '"')
		}
		if limit.Period >= store.Total {
			continue
		}
		length := limit.Period.Pace()
		if !limit.Period.IsPace() {
			length = c.span(limit.Period).Length()
		}
		b = strconv.AppendInt(append(b, ";w="...), int64(length/time.Second), 10)
	}
	if kept {
		c.policy.Store(&policyField{c.day, string(b)})
	}
	return string(b)
}

// rateLimit is the field RateLimit. It has what remains of each limit and the
// seconds until the limit is full again. Use it once: the text
// is in the call's own memory, which saves a tenth of the gate's time, and must
// not change afterwards.
func (c *Call) rateLimit() string {
	b := c.restText[:0]
	for i := range c.limits {
		limit := &c.limits[i]
		b = appendItem(b, i, limit)
		b = strconv.AppendInt(append(b, ";r="...), min(limit.Left(&c.rooms[i]), maxInteger), 10)
		var full int64
		switch {
		case limit.Period >= store.Total:
			continue
		case limit.Period.IsPace() || limit.OfAddress:
			full = refusal.WholeSeconds(c.rooms[i].Full)
		default:
			full = c.span(limit.Period).RetryAfter(c.began)
		}
		b = strconv.AppendInt(append(b, ";t="...), full, 10)
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// appendItem appends the name of a limit, which begins its item. at is the
// position of the item.
func appendItem(b []byte, at int, limit *store.Limit) []byte {
	if at > 0 {
		b = append(b, ", "...)
	}
	return append(policy.AppendLimitName(append(b, '"'), limit), '"')
}

// maxInteger is the largest integer of a structured field (RFC 9651,
// 3.3.1), one below the largest limit.
const maxInteger = 999_999_999_999_999
