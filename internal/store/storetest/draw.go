package storetest

import (
	"context"
	"slices"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

func (c *counting) id() string { return rapid.SampledFrom(c.ids).Draw(c.T, "account") }

// newCall draws a call of an account, or of no account if it is closed.
func (c *counting) newCall(id string) heldCall {
	call := heldCall{Call: store.Call{
		Account:  id,
		Endpoint: rapid.SampledFrom([]string{"convert", "convert", "rates", "usage"}).Draw(c.T, "endpoint"),
		Day:      c.day + calendar.Day(rapid.IntRange(-1, 1).Draw(c.T, "day")), At: c.at,
		Cost: rapid.Int64Range(0, 9).Draw(c.T, "cost"),
	}, life: c.model.Last(id)}
	call.Key = rapid.SampledFrom(append([]string{""}, call.life.Keys...)).Draw(c.T, "key")
	if call.Endpoint != "usage" && rapid.Bool().Draw(c.T, "except") {
		call.Except = "usage"
	}
	if rapid.Bool().Draw(c.T, "own month") {
		before, behind := rapid.IntRange(0, 40), rapid.IntRange(0, 40)
		call.Month = calendar.Window{First: call.Day - calendar.Day(before.Draw(c.T, "days before")), Last: call.Day + calendar.Day(behind.Draw(c.T, "days behind"))}
	}
	if call.life.Open {
		grant, err := c.s.store.GrantAccount(context.Background(), id, true)
		c.must(err)
		c.known[call.life] = grant.Handle
	}
	call.Handle = c.known[call.life]
	return call
}

// limits draws limits of a call, with different endpoints and periods.
func (c *counting) limits(call store.Call) (list []store.Limit) {
	periods := []store.Period{store.Day, store.Day, store.Week, store.Month, store.Month, store.Total}
	if !c.s.ownClock {
		periods = append(periods, store.Second, store.Minute, store.Hour)
	}
	requests := rapid.SampledFrom([]int32{0, 0, 1, 3}).Draw(c.T, "requests")
	for range rapid.IntRange(0, 4).Draw(c.T, "limits") {
		limit := store.Limit{
			Requests: requests,
			Endpoint: rapid.SampledFrom([]string{call.Endpoint, "of another name", store.All}).Draw(c.T, "of"),
			Period:   rapid.SampledFrom(periods).Draw(c.T, "period"), Max: rapid.Int64Range(1, 60).Draw(c.T, "max"),
			OfKey: call.Key != "" && rapid.Bool().Draw(c.T, "of key"),
		}
		limit.Calls = !limit.OfKey && rapid.IntRange(0, 4).Draw(c.T, "calls") == 0
		if !limit.Period.IsPace() && rapid.IntRange(0, 9).Draw(c.T, "extreme") == 0 {
			limit.Max = rapid.SampledFrom([]int64{0, store.Unlimited}).Draw(c.T, "extreme max")
		} else if !limit.Period.IsPace() && limit.Period != store.Total && !limit.OfKey && rapid.IntRange(0, 3).Draw(c.T, "soft") == 0 {
			limit.Soft, limit.Included = true, rapid.Int64Range(0, limit.Max-1).Draw(c.T, "included")
		}
		if !slices.ContainsFunc(list, func(l store.Limit) bool {
			return (l.Endpoint == store.All) == (limit.Endpoint == store.All) && l.Period == limit.Period && l.OfKey == limit.OfKey && l.Calls == limit.Calls
		}) {
			list = append(list, limit)
		}
	}
	return list
}
