package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Settle implements store.Counter.
func (s *Store) Settle(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room, cost int64, refund bool) error {
	t := s.newTaking(&call, limits)
	keys, args := t.settlement(rooms, cost, refund)
	sent := time.Now()
	reply, err := s.client.runWithin(ctx, settleScript, keys, args)
	if errors.Is(err, errNoReply) {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	if err != nil {
		return err
	}
	r := reader{reply: reply}
	if len(reply) == 0 {
		return store.ErrReceipt
	}
	s.client.clock.read(r.int(), sent, time.Now())
	if len(r.reply) > 0 { // the account exists
		t.readCounters(&r, callCounters)
	}
	if r.err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnknown, damaged("reply", r.err))
	}
	return nil
}

// settlement returns the keys and the arguments of settleScript.
func (t *taking) settlement(rooms []store.Room, cost int64, refund bool) (keys, args []string) {
	amounts, taken := store.Settled(t.call, t.limits, rooms, cost, refund), t.call.Weight()
	keys = t.groupKeys()
	n := newNumbers()
	var paces []int
	for i := range t.limits {
		if !refund && cost != taken && t.limits[i].Period.IsPace() && !t.limits[i].Calls {
			paces = append(paces, i)
		}
	}
	n.add(countsExpire(t.call.Day), amounts[store.OfOverage], int64(len(t.groups)), int64(len(paces)))
	t.addGroups(n, amounts)
	for _, i := range paces {
		l, sign, more := &t.limits[i], int64(1), cost-taken
		if more < 0 {
			sign, more = -1, -more
		}
		keys = append(keys, t.bucketKey(l))
		whole, part := l.CostTime(min(more, l.Max), time.Microsecond)
		n.add(l.Period.Pace().Microseconds(), l.Max, int64(rooms[i].Busy), sign, int64(whole), int64(part))
	}
	_, day := dateOf(t.call.Day)
	keys, args = t.addReceipt(keys, []string{number(uint64(t.call.Handle)), day, t.call.Endpoint, n.text()}, 1)
	if amounts[store.OfOverage] != 0 {
		keys = append(keys, t.overageKey())
	}
	return keys, args
}
