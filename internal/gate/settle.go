package gate

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate/answer"
	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/gate/tell"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// A call whose answer tells its cost takes a reservation from its limits. It is
// settled once: with the cost that a header, a trailer or the body of the answer
// tells, or with 0 if it is refunded. If nothing tells the cost, it is 0 for an
// answer of 4xx or 5xx, else the reservation.

// refund gives the cost of the call back once, also if the client is gone. It
// does not change paces. A call whose client is gone (499) is not given back:
// the service has worked for it.
func (c *Call) refund() {
	if c.settled {
		return
	}
	c.settled = true
	c.mark.call.Store(nil)
	if c.uncounted {
		return
	}
	own, address, s := c.takeReservation(), c.mark.address, c.newSettlement(0, true)
	c.counted = false
	c.setCost(0, true)
	c.gate.Server.Count(c.endpoint, outcome.Refunded)
	c.gate.settle(true, func(tried func()) {
		c.settleAddress(address, 0)
		c.settleInStore(own, s, tried)
	})
}

// settlement is what the store settles.
type settlement struct {
	call   store.Call
	limits []store.Limit
	rooms  []store.Room
	cost   int64
	refund bool
}

func (c *Call) newSettlement(cost int64, refund bool) settlement {
	n := c.limitsOfStore()
	s := settlement{c.storeCall(), c.limits[:n], slices.Clone(c.rooms[:min(n, len(c.rooms))]), cost, refund}
	s.call.At = c.gate.Now()
	return s
}

// settleByStatus gives back what the rule of refunds says of an error, and notes an
// error that costs nothing. A service in this process fails if its client leaves.
func (c *Call) settleByStatus(status int) {
	if status < http.StatusBadRequest || status == answer.StatusClientGone || c.request.Context().Err() != nil {
		return
	}
	// The headers Range and If-Match make a 416 and a 412 of any answer.
	c.failed = !c.unanswered && status != http.StatusRequestedRangeNotSatisfiable && status != http.StatusPreconditionFailed
	of, server := c.endpoint.Refund, status >= http.StatusInternalServerError
	if server {
		c.gate.Server.Count(c.endpoint, outcome.Failed)
	}
	if of == policy.RefundErrors || of == policy.RefundServerErrors && server {
		c.refund()
	}
}

// settleByHeader settles the call when its answer begins, unless a trailer, which
// the answer announces, or the body will tell the cost.
func (c *Call) settleByHeader(h http.Header) {
	from := c.endpoint.Answer
	if from == nil || c.settled {
		return
	}
	name := from.Header
	if name == "" {
		c.answer.Scanner = c.gate.tellers[c.endpoint.Index].Scanner(h)
		return
	}
	for announced := range header.Elements(h["Trailer"]) {
		if strings.EqualFold(announced, name) && h[name] == nil {
			return
		}
	}
	c.settle(tell.Header(h[name], from.Scale))
}

// settleByEnd settles the call when its answer has ended, unless that is done. An
// answer that is cut off, or whose client has left, is not whole: it has no trailers.
func (c *Call) settleByEnd(whole bool) {
	from := c.endpoint.Answer
	if from == nil || c.settled {
		return
	}
	switch {
	case from.Header == "":
		c.settle(c.answer.Scanner.Cost(whole))
	case whole:
		h := c.answer.Header()
		c.settle(tell.Header(slices.Concat(h[from.Header], h[http.TrailerPrefix+from.Header]), from.Scale))
	default:
		c.settle(0, false)
	}
}

// settle settles the call with the cost that the answer has told.
func (c *Call) settle(cost int64, told bool) {
	c.settled = true
	reserved := c.cost
	switch {
	case told:
	case c.failed && c.answer.Passage.Body.Fault() == nil:
		cost = 0
	default:
		cost = reserved
		c.gate.Server.Count(c.endpoint, outcome.CostUnknown)
		if c.request.Context().Err() == nil {
			c.gate.outages.unknown.Failed(append(c.logAttrs(), slog.Int("status", c.answer.Status), slog.Int64("reservation", reserved))...)
		}
	}
	if cost > reserved && !c.uncounted {
		c.gate.Server.Count(c.endpoint, outcome.CostAbove)
		c.gate.outages.above.Failed(append(c.logAttrs(), slog.Int64("cost", cost), slog.Int64("reservation", reserved))...)
	}
	if c.uncounted {
		return
	}
	own, address, s := c.takeReservation(), c.mark.address, c.newSettlement(cost, false)
	c.setCost(cost, false)
	c.gate.settle(false, func(tried func()) {
		c.settleAddress(address, cost)
		c.settleInStore(own, s, tried)
	})
}

// setCost changes the cost of the call, and the room that it left.
func (c *Call) setCost(cost int64, refund bool) {
	for i := range c.limits[:c.limitsOfPeriods()] { // the call still runs
		back := c.cost - cost
		if c.limits[i].Calls {
			if back = 0; refund {
				back = c.limits[i].Weight(c.cost)
			}
		}
		if !c.limits[i].Period.IsPace() {
			c.rooms[i].Remaining = max(0, c.rooms[i].Remaining+back)
		}
	}
	c.cost = cost
}

// maxSettling is how often a settlement is tried, with longer and longer
// pauses: a store is back within seconds if its server restarts.
const maxSettling = 8

// settle changes the store beside an answer: a store that hangs delays no 502.
// do calls tried when it has tried once. With soon, the answer waits for that,
// but only for a short time: a client that then asks for its usage sees the
// refund.
func (g *Gate) settle(soon bool, do func(tried func())) {
	tried := make(chan struct{})
	g.settling.Add(1)
	go func() {
		defer g.settling.Add(-1)
		do(sync.OnceFunc(func() { close(tried) }))
	}()
	if soon {
		select {
		case <-tried:
		case <-time.After(settlePause):
		}
	}
}

// settleInStore settles the call in the store. If the store fails for long, or
// if it may have settled the call, what it took stays counted.
func (c *Call) settleInStore(own *reservation, s settlement, tried func()) {
	for n := range maxSettling {
		done := s.cost == s.call.Cost || c.trySettling(s, n == maxSettling-1)
		if done {
			c.endReservation(own, s.call)
		}
		tried()
		if done {
			return
		}
		time.Sleep(settlePause << n)
	}
}

// endReservation ends the reservation of a call once the store has settled it, and
// reports the limits of the account as they are then.
func (c *Call) endReservation(own *reservation, call store.Call) {
	if own == nil {
		return
	}
	defer c.gate.Reservations.forget(own)
	refused := c.gate.Reservations.settled(own)
	if !refused && !c.hasEvents() {
		return
	}
	call.Version, call.Until = 0, time.Time{} // the account may have changed
	rooms := make([]store.Room, len(c.limits))
	if n := c.limitsOfStore(); c.store.Rooms(context.Background(), call, c.limits[:n], rooms[:n]) != nil {
		return // the next call reports them
	}
	var next int64
	if refused {
		next = call.Cost
	}
	c.warn(rooms, c.held(rooms, own), next)
}

// trySettling settles the call in the store, unless it fails and another try is
// safe. There is none after the last one.
func (c *Call) trySettling(s settlement, last bool) (done bool) {
	err := c.store.Settle(context.Background(), s.call, s.limits, s.rooms, s.cost, s.refund)
	switch {
	case err == nil:
		c.gate.outages.settle.Worked()
	case last, errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrClosed):
		c.gate.Server.Count(c.endpoint, outcome.Unsettled)
		logFailure(c.gate.outages.settle, err, append(c.logAttrs(), slog.Int64("cost", s.cost), slog.Int64("reservation", s.call.Cost))...)
	default:
		return false
	}
	return true
}

const settlePause = 100 * time.Millisecond

// Wait waits until no settlement is under way. It delays no answer: a lock for
// it would.
func (g *Gate) Wait() {
	for g.settling.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
}
