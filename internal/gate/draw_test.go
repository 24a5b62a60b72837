package gate_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// names are the endpoints that a limit can have. Limits of all are common, so
// that many limits cover one call.
var names = []string{"convert", "history", "batch", policy.UsageEndpoint, "convert", store.All, store.All, store.All}

func (s *simulation) limit() store.Limit {
	l := store.Limit{
		Endpoint: rapid.SampledFrom(names).Draw(s.T, "endpoint"),
		Period:   store.Period(rapid.IntRange(int(store.Second), int(store.Total)).Draw(s.T, "period")),
	}
	least := 0
	if l.Period.IsPace() {
		least = 1
	}
	l.Max = int64(rapid.IntRange(least, 12<<l.Period/4).Draw(s.T, "limit"))
	return l
}

// limitOrNone draws a limit of an account.
func (s *simulation) limitOrNone() store.Limit {
	l := s.limit()
	if rapid.IntRange(0, 9).Draw(s.T, "unlimited") == 0 {
		l.Max = store.Unlimited
	}
	return l
}

func (s *simulation) planLimit() store.Limit {
	l := s.limitOrNone()
	if l.Max == store.Unlimited {
		return l
	}
	if l.Calls = rapid.IntRange(0, 4).Draw(s.T, "calls") == 0; !l.Calls && !l.Period.IsPace() && l.Period != store.Total && rapid.IntRange(0, 2).Draw(s.T, "soft") == 0 {
		l.Soft, l.Included = true, l.Max
		l.Max += rapid.Int64Range(1, 9).Draw(s.T, "ceiling")
	}
	return l
}

func same(a, b store.Limit) bool { return a.Same(b) }

// distinct draws limits with different endpoints and periods.
func (s *simulation) distinct(most int, draw func() store.Limit) (limits []store.Limit) {
	for range rapid.IntRange(0, most).Draw(s.T, "limits") {
		l := draw()
		if !slices.ContainsFunc(limits, func(o store.Limit) bool { return same(l, o) }) {
			limits = append(limits, l)
		}
	}
	return limits
}

func (s *simulation) keyLimits() []store.Limit { return s.distinct(3, s.limit) }

// config draws a configuration.
func (s *simulation) config(zone string) policy.Config {
	c := policy.Config{
		Timezone: zone, Guard: []string{"/api/"}, Usage: "GET /api/usage",
		Refund: rapid.SampledFrom([]policy.Refund{policy.RefundUnreachable, policy.RefundServerErrors, policy.RefundErrors, policy.RefundNever}).Draw(s.T, "refund"),
		Endpoints: []policy.EndpointConfig{
			{Name: "convert", Patterns: []string{"GET /api/convert"}},
			{Name: "history", Patterns: []string{"GET /api/history"}, Cost: int64(rapid.IntRange(1, 4).Draw(s.T, "cost"))},
			{Name: "batch", Patterns: []string{"POST /api/batch"}, CostMember: "items"},
		},
	}
	if rapid.Bool().Draw(s.T, "reserves") {
		history := &c.Endpoints[1]
		history.CostAnswer, history.Cost = &policy.CostAnswerConfig{Header: "Tollgate-Cost", Reserve: history.Cost}, 0
	}
	for _, name := range []string{"one", "two"} {
		plan := policy.PlanConfig{Name: name, Limits: map[string]*policy.Limit{}}
		for _, l := range s.distinct(8, s.planLimit) {
			limit := policy.Limit(l.Number())
			if l.Period == store.Day && l.Endpoint != store.All && !l.Soft && !l.Calls && rapid.Bool().Draw(s.T, "short form") {
				plan.Limits[l.Endpoint] = &limit
			} else {
				more := policy.LimitConfig{Endpoint: l.Endpoint, Period: l.Period.String(), Limit: limit, Calls: l.Calls}
				if l.Soft {
					more.Soft = l.Max
				}
				plan.MoreLimits = append(plan.MoreLimits, more)
			}
		}
		for _, e := range []string{"convert", "history", "batch", policy.UsageEndpoint} {
			if _, listed := plan.Limits[e]; !listed && rapid.IntRange(0, 9).Draw(s.T, "listed") > 0 {
				plan.Limits[e] = nil
				if slices.ContainsFunc(plan.MoreLimits, func(l policy.LimitConfig) bool { return l.Endpoint == e && l.Period == "day" && !l.Calls }) {
					delete(plan.Limits, e)
				}
			}
		}
		opens := len(plan.Limits) > 0 || slices.ContainsFunc(plan.MoreLimits, func(l policy.LimitConfig) bool { return l.Endpoint != store.All })
		if !opens {
			plan.MoreLimits = nil // a plan that has lines opens an endpoint
		}
		c.Plans = append(c.Plans, plan)
	}
	return c
}

// step draws a time. Many end near a midnight or the end of a month.
func (s *simulation) step() time.Duration {
	now := s.world.now
	near := time.Duration(rapid.SampledFrom([]int64{0, -1, 1, -1e9, 1e9, -1e9 - 1, -5e8, -59e9, 61e9}).Draw(s.T, "near"))
	switch rapid.IntRange(0, 7).Draw(s.T, "kind") {
	case 0:
		return time.Duration(rapid.IntRange(0, 1000).Draw(s.T, "ns"))
	case 1, 2:
		return time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(s.T, "ns"))
	case 3:
		return time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(s.T, "ns"))
	case 4, 5:
		return max(0, s.model.calendar.At(now).End.Add(near).Sub(now))
	case 6:
		return max(0, store.Month.Span(s.model.calendar, now).End.Add(near).Sub(now))
	}
	return time.Duration(rapid.IntRange(1, 40*24).Draw(s.T, "hours")) * time.Hour
}
