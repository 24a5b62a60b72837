package gate

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// A call to an endpoint with a CostHeader takes a reservation from its limits.
// It is settled once: with the cost that the header or a trailer of the answer
// tells, else with the reservation, or with 0 if it is refunded.

// maxAnswerCost is the highest cost that an answer can tell. Sums of thousands
// of these are still exact in every store.
const maxAnswerCost = 1_000_000_000_000

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
	reserved := c.storeCall()
	c.counted = false
	c.setCost(0)
	c.gate.Server.Count(c.endpoint, outcome.Refunded)
	own, address := c.takeReservation(), c.mark.address
	c.gate.settle(true, func(tried func()) {
		c.settleAddress(address, 0)
		c.settleInStore(own, reserved, 0, tried)
	})
}

// settleByHeader settles the call when its answer begins, unless the answer
// announces that a trailer will tell the cost.
func (c *Call) settleByHeader(h http.Header) {
	name := c.endpoint.CostHeader
	if name == "" || c.settled {
		return
	}
	for announced := range header.Elements(h["Trailer"]) {
		if strings.EqualFold(announced, name) && h[name] == nil {
			return
		}
	}
	c.settle(h[name])
}

// settleByTrailer settles the call when its answer has ended, unless that is
// done. An answer that is cut off has no trailers.
func (c *Call) settleByTrailer(whole bool) {
	name := c.endpoint.CostHeader
	switch {
	case name == "" || c.settled:
	case whole:
		c.settle(slices.Concat(c.answer.Header()[name], c.answer.Header()[http.TrailerPrefix+name]))
	default:
		c.settle(nil)
	}
}

// settle settles the call with the cost that the values of a header tell.
func (c *Call) settle(values []string) {
	c.settled = true
	reserved := c.endpoint.Cost
	cost, told := reserved, false
	if len(values) == 1 {
		n, err := strconv.ParseUint(values[0], 10, 64)
		if told = err == nil && n <= maxAnswerCost; told {
			cost = int64(n)
		}
	}
	switch {
	case !told:
		c.gate.Server.Count(c.endpoint, outcome.CostUnknown)
	case cost > reserved:
		c.gate.Server.Count(c.endpoint, outcome.CostAbove)
		c.gate.outages.above.Failed(append(c.logAttrs(), slog.Int64("cost", cost), slog.Int64("reservation", reserved))...)
	}
	if c.uncounted {
		return
	}
	call, own, address := c.storeCall(), c.takeReservation(), c.mark.address
	c.setCost(cost)
	c.gate.settle(false, func(tried func()) {
		c.settleAddress(address, cost)
		c.settleInStore(own, call, cost, tried)
	})
}

// setCost changes the cost of the call, and the room that it left.
func (c *Call) setCost(cost int64) {
	for i, limit := range c.limits {
		if !limit.Period.IsPace() {
			c.rooms[i].Remaining = max(0, c.rooms[i].Remaining+c.cost-cost)
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
func (c *Call) settleInStore(own *reservation, reserved store.Call, cost int64, tried func()) {
	for n := range maxSettling {
		done := cost == reserved.Cost || c.trySettling(reserved, cost, n == maxSettling-1)
		if done {
			c.endReservation(own, reserved)
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
	if !refused && len(c.gate.Policy.Warn) == 0 {
		return
	}
	call.Version, call.Until = 0, time.Time{} // the account may have changed
	rooms := make([]store.Room, len(c.limits))
	if n := c.limitsOfStore(); c.store.Rooms(context.Background(), call, c.limits[:n], rooms[:n]) != nil {
		return // the next call reports them
	}
	var next int64
	if refused {
		next = c.endpoint.Cost
	}
	c.warn(rooms, c.held(rooms, own), next)
}

// trySettling settles the call in the store, unless it fails and another try is
// safe. There is none after the last one.
func (c *Call) trySettling(reserved store.Call, cost int64, last bool) (done bool) {
	err := c.store.Settle(context.Background(), reserved, cost)
	switch {
	case err == nil:
		c.gate.outages.settle.Worked()
	case last, errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrClosed):
		c.gate.Server.Count(c.endpoint, outcome.Unsettled)
		logFailure(c.gate.outages.settle, err, append(c.logAttrs(), slog.Int64("cost", cost), slog.Int64("reservation", reserved.Cost))...)
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
