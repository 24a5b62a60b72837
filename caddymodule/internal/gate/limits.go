package gate

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// entitlement is what a plan gives to an endpoint, with caches of header
// fields and refusals that most calls have in common.
type entitlement struct {
	gate     *Gate
	endpoint *policy.Endpoint
	plan     *policy.Plan // nil without one
	except   string       // the endpoint that limits of all endpoints do not cover

	policy    atomic.Pointer[policyField]
	exhausted atomic.Pointer[exhaustion]
}

func (g *Gate) entitlementsOf(plan *policy.Plan) []entitlement {
	all := make([]entitlement, len(g.Policy.Endpoints))
	for i, e := range g.Policy.Endpoints {
		all[i].gate, all[i].endpoint, all[i].plan = g, e, plan
		if !e.Usage {
			all[i].except = g.Policy.Except()
		}
	}
	return all
}

// setLimits finds the limits of the call: those of the plan with the overrides
// of the account, then those of the key. Without overrides and limits of the
// key, it uses the list of the plan.
func (c *Call) setLimits() {
	c.day = c.gate.Policy.Calendar.At(c.began)
	c.limits = c.plan.LimitsOf(c.endpoint, c.grant.Overrides, c.began)
	c.shared = len(c.grant.Overrides) == 0
	own := c.grant.Restriction
	if own == nil || len(own.Limits) == 0 {
		return
	}
	c.shared = false
	c.limits = slices.Clip(c.limits)
	for _, limit := range own.Limits {
		if c.endpoint.Covered(limit) {
			limit.OfKey = true
			c.limits = append(c.limits, limit)
		}
	}
}

// newRooms returns the memory for the rooms of the call's limits.
func (c *Call) newRooms() []store.Room {
	if len(c.limits) > len(c.few) {
		return make([]store.Room, len(c.limits))
	}
	return c.few[:len(c.limits)]
}

// look refuses a call if a limit has no room for its cost. It counts nothing.
func (c *Call) look() *Refusal {
	rooms := c.newRooms()
	if err := c.store.Rooms(c.request.Context(), c.counted(), c.limits, rooms); err != nil {
		return c.gate.storeFailed(err, c.whose()...)
	}
	c.rooms = rooms
	if slices.ContainsFunc(rooms, func(room store.Room) bool { return room.Remaining < c.cost }) {
		return c.refuseExceeded()
	}
	return nil
}

// take takes the cost of the call from all limits in one step.
func (c *Call) take() *Refusal {
	rooms := c.newRooms()
	admitted, err := c.store.Take(c.request.Context(), c.counted(), c.limits, rooms)
	if err != nil {
		// Nothing is given back: the call may not be counted.
		c.rooms = nil
		return c.gate.storeFailed(err, c.whose()...)
	}
	c.rooms = rooms
	if !admitted {
		return c.refuseExceeded()
	}
	c.warn(false)
	return nil
}

// counted returns the call as the store counts it.
func (c *Call) counted() store.Call {
	call := store.Call{
		Account: c.grant.Account, Endpoint: c.endpoint.Name, Except: c.except,
		At: c.began, Day: c.day.Day, Cost: c.cost, Handle: c.grant.Handle, Version: c.grant.Version, Until: c.until(),
	}
	if own := c.grant.Restriction; own != nil && len(own.Limits) > 0 {
		call.Key = own.CountsAs
	}
	return call
}

// until returns when the decision about the call ends.
func (c *Call) until() time.Time {
	end := c.day.End
	if key := c.grant.Until; !key.IsZero() && key.Before(end) {
		end = key
	}
	for i := range c.grant.Overrides {
		o := &c.grant.Overrides[i]
		if o.Live(c.began) && !o.ExpiresAt.IsZero() && o.ExpiresAt.Before(end) {
			end = o.ExpiresAt
		}
	}
	return end
}

// refund gives the cost of the call back once, also if the client is gone. It
// does not change paces.
func (c *Call) refund() {
	if c.refunded {
		return
	}
	c.refunded = true
	c.gate.unmark(&c.forwarded)
	if c.uncounted {
		return
	}
	if err := c.store.GiveBack(context.WithoutCancel(c.request.Context()), c.counted()); err != nil {
		failed(c.gate.outages.refund, err, c.whose()...)
		return
	}
	c.gate.outages.refund.Worked()
	for i, limit := range c.limits {
		if !limit.Period.IsPace() {
			c.rooms[i].Remaining = min(limit.Max, c.rooms[i].Remaining+c.cost)
		}
	}
	c.gate.Server.Count(c.endpoint, Refunded)
}

// lookupLimit returns the number or the remaining calls of one limit, as far as
// they are known: the account's limit of the endpoint for the day, or the first
// limit if there is none.
func (c *Call) lookupLimit(remaining bool) any {
	switch {
	case c.plan == nil || remaining && c.rooms == nil:
		return ""
	case len(c.limits) == 0:
		return "unlimited"
	}
	i := max(0, slices.IndexFunc(c.limits, func(l store.Limit) bool {
		return l.Period == store.Day && l.Endpoint == c.endpoint.Name && !l.OfKey
	}))
	if remaining {
		return c.rooms[i].Remaining
	}
	return c.limits[i].Max
}

// span returns the day or the month of the call.
func (c *Call) span(period store.Period) *calendar.Span {
	if period == store.Month {
		return c.gate.Policy.Calendar.Month(c.began)
	}
	return c.day
}

// policyField is a RateLimit-Policy field. It changes with the length of
// the day and the month. The day determines the month.
type policyField struct {
	day   *calendar.Span
	value string
}

// rateLimitPolicy is the field RateLimit-Policy
// (draft-ietf-httpapi-ratelimit-headers). It has the number of calls of each
// limit and the length of its period in seconds.
func (c *Call) rateLimitPolicy() string {
	if last := c.policy.Load(); c.shared && last != nil && last.day == c.day {
		return last.value
	}
	var b []byte
	for i, limit := range c.limits {
		length := limit.Period.Pace()
		if !limit.Period.IsPace() {
			length = c.span(limit.Period).Length()
		}
		b = appendItem(b, i, limit)
		b = strconv.AppendInt(append(b, ";q="...), min(limit.Max, maxInteger), 10)
		b = strconv.AppendInt(append(b, ";w="...), int64(length/time.Second), 10)
	}
	if c.shared {
		c.policy.Store(&policyField{c.day, string(b)})
	}
	return string(b)
}

// rateLimit is the field RateLimit. It has what remains of each limit and the
// seconds until the limit is full again. Use it once: the text
// is in the call's own memory, which saves a tenth of the gate's time, and must
// not change afterwards.
func (c *Call) rateLimit() string {
	b := c.text[:0]
	for i, limit := range c.limits {
		full := wholeSeconds(c.rooms[i].Full)
		if !limit.Period.IsPace() {
			full = c.span(limit.Period).RetryAfter(c.began)
		}
		b = appendItem(b, i, limit)
		b = strconv.AppendInt(append(b, ";r="...), min(c.rooms[i].Remaining, maxInteger), 10)
		b = strconv.AppendInt(append(b, ";t="...), full, 10)
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// appendItem appends the name of a limit, which begins its item. at is the
// position of the item.
func appendItem(b []byte, at int, limit store.Limit) []byte {
	if at > 0 {
		b = append(b, ", "...)
	}
	return append(policy.AppendLimitName(append(b, '"'), limit), '"')
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// maxInteger is the largest integer of a structured field (RFC 9651,
// 3.3.1), one below the largest limit.
const maxInteger = 999_999_999_999_999
