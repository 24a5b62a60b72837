package gate

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// A call without a credential is one of the account policy.AnonymousAccount, and
// of its address. The store has the limits of the account. The login limiter has
// those of the address, which come after those of the store.

// addAddress adds the limits of the address to those of a call without a credential.
func (c *Call) addAddress() {
	if !c.credential.IsAnonymous() || c.gate.Policy.Anonymous == nil { // a program can name an account of that id
		if c.mark.address != nil {
			c.mark.address = nil // of an earlier pass of the request
		}
		return
	}
	limits := c.gate.Policy.Anonymous.Limits
	c.planOnly = false // a refusal offers a key
	if len(limits) > 0 {
		c.limits = slices.Concat(c.limits, limits)
		c.mark.address = &login.AddressCall{Client: login.ClientOf(c.mark.Client), Calendar: c.gate.Policy.Calendar, Limits: limits}
	}
}

// limitsOfStore returns how many of the limits the store has.
func (c *Call) limitsOfStore() int {
	n := c.limitsOfPeriods()
	for n > 0 && c.limits[n-1].OfAddress {
		n--
	}
	return n
}

// takeAll takes the cost from all limits. Calls at once and the address are first:
// they need no durable write. If the store refuses or fails, they get it back.
func (c *Call) takeAll(call store.Call, rooms []store.Room) (admitted bool, err error) {
	n, last, peek := c.limitsOfStore(), c.limitsOfPeriods(), c.gate.foresees
	limits, own, ofAddress := c.limits[:n], rooms[:n], rooms[n:last]
	entered, err := c.enter(rooms[last:], peek)
	if err != nil {
		return false, err
	}
	defer func() {
		if leave := c.mark.leave; leave != nil && (!admitted || err != nil) {
			c.mark.leave = nil
			c.gate.leave(leave)
			for i := range rooms[last:] {
				rooms[last+i].Remaining += max(1, c.mark.requests)
			}
		}
	}()
	if admitted, err = c.askAddress(ofAddress, peek || !entered); err != nil {
		return false, err
	} else if !admitted || !entered {
		return false, c.store.Rooms(c.request.Context(), call, limits, own)
	}
	if c.endpoint.Answer == nil {
		admitted, err = c.store.Take(c.request.Context(), call, limits, own)
	} else {
		admitted, err = c.reserve(call, limits, own)
	}
	if c.mark.address != nil && !peek && (!admitted || err != nil) {
		err = errors.Join(err, c.mark.address.Undo(c.request.Context(), ofAddress))
	}
	return admitted, err
}

// askAddress takes the cost from the limits of the address, unless peek is set.
func (c *Call) askAddress(rooms []store.Room, peek bool) (admitted bool, err error) {
	if c.mark.address == nil {
		return true, nil
	}
	limiter, err := c.gate.Limiter()
	if err != nil {
		return false, err
	}
	c.mark.address.Cost = c.cost
	return limiter.Take(c.request.Context(), c.mark.address, rooms, peek)
}

// settleAddress settles the call in the limits of its address, if that is not nil.
// If it fails, what the call took stays counted.
func (c *Call) settleAddress(a *login.AddressCall, cost int64) {
	if a != nil && a.Cost != cost {
		if err := a.Settle(context.Background(), cost); err != nil {
			logFailure(c.gate.outages.settle, err, append(c.logAttrs(), slog.Int64("cost", cost))...)
		}
	}
}
