package gate

import (
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// warn reports the limits of the account that have reached a percentage of
// the option warn, and those that have refused the call. Most calls are below
// the lowest percentage and cost one comparison.
func (c *Call) warn(refused bool) {
	percentages := c.gate.Policy.Warn
	if len(percentages) == 0 && !refused {
		return
	}
	for i := range c.limits {
		l := &c.limits[i]
		if l.OfKey || l.Period.IsPace() {
			continue
		}
		used := l.Max - c.rooms[i].Remaining
		for _, percentage := range percentages {
			if l.Max == 0 || used*100 < int64(percentage)*l.Max {
				break // the percentages are ascending
			}
			c.reached(l, used, percentage)
		}
		if refused && c.rooms[i].Remaining < c.cost {
			c.reached(l, used, 0)
		}
	}
}

// reached reports a limit. The threshold is 0 if the limit has refused the
// call.
func (c *Call) reached(l *store.Limit, used int64, threshold int) {
	span := c.span(l.Period)
	c.gate.Reporter.Reached(c.request.Context(), event.Quota{
		Account: c.grant.Account, Plan: c.grant.Plan, Endpoint: l.Endpoint, Period: l.Period,
		Limit: l.Max, Used: used, Threshold: threshold, Start: span.Start, End: span.End, At: c.began,
	})
}
