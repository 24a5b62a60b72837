package gate_test

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// model is the simplest gate for one account: what its store counts, and the
// calls in progress. It shares no code with the gate but the types of the
// configuration.
type model struct {
	account  string
	calendar *calendar.Calendar
	config   policy.Config
	modelTerms
	overrides []store.Override
	counts    storetest.Model
	progress  []*store.Call // with a reservation
}

// modelKey is a key. root is the id that its calls count for.
type modelKey struct {
	id, root, bearer string
	limits           []store.Limit
}

// modelRoom is what a limit has left for a call, and what the fields say.
type modelRoom struct {
	store.Limit
	remaining  int64
	wait, full time.Duration // for the cost of the call, and until it is full
	length     time.Duration
	resets     time.Time // zero for a pace
	reserved   bool      // only calls in progress refuse the cost
}

// endpoint returns the configuration of an endpoint.
func (m *model) endpoint(name string) policy.EndpointConfig {
	at := slices.IndexFunc(m.config.Endpoints, func(e policy.EndpointConfig) bool { return e.Name == name })
	if at < 0 {
		return policy.EndpointConfig{Name: policy.UsageEndpoint}
	}
	return m.config.Endpoints[at]
}

// limits returns the limits of the plan of an instant in their order, and the
// endpoints that it lists.
func (m *model) limits(now time.Time) (limits []store.Limit, lists []string) {
	at := slices.IndexFunc(m.config.Plans, func(p policy.PlanConfig) bool { return p.Name == m.planAt(now) })
	plan := m.config.Plans[at]
	for _, e := range append(slices.Clone(m.config.Endpoints), policy.EndpointConfig{Name: policy.UsageEndpoint}) {
		limit, listed := plan.Limits[e.Name]
		if listed {
			lists = append(lists, e.Name)
		}
		if limit != nil {
			limits = append(limits, store.Limit{Endpoint: e.Name, Period: store.Day, Max: int64(*limit)})
		}
	}
	for _, l := range plan.MoreLimits {
		if l.Endpoint != store.All {
			lists = append(lists, l.Endpoint)
		}
		period := store.Period(slices.Index(store.Periods, l.Period) + 1)
		limit := store.Limit{Endpoint: l.Endpoint, Period: period, Max: int64(l.Limit), Calls: l.Calls}
		if l.Soft > 0 {
			limit.Soft, limit.Included, limit.Max = true, limit.Max, l.Soft
		}
		limits = append(limits, limit)
	}
	return limits, lists
}

// inForce returns the limits of the account at an instant: those of the plan,
// with its overrides.
func (m *model) inForce(now time.Time) []store.Limit {
	limits, _ := m.limits(now)
	for _, o := range m.overrides {
		if !o.ExpiresAt.IsZero() && !now.Before(o.ExpiresAt) {
			continue
		}
		if at := slices.IndexFunc(limits, func(l store.Limit) bool { return l.Endpoint == o.Endpoint && l.Period == o.Period && !l.Calls }); at >= 0 {
			limits[at] = o.Limit
		} else {
			limits = append(limits, o.Limit)
		}
	}
	limits = slices.DeleteFunc(limits, func(l store.Limit) bool { return l.Max == store.Unlimited })
	for i := range limits {
		if l := &limits[i]; l.Period == store.Total && !l.Calls {
			l.Max = m.most(l.Endpoint, l.Max)
		}
	}
	return limits
}

// life is the account.
func (m *model) life() *storetest.Life { return m.counts.Last(m.account) }

// call returns a call that the gate takes, with its limits.
func (m *model) call(endpoint string, key *modelKey, now time.Time, cost int64) (call store.Call, limits []store.Limit) {
	call = store.Call{Account: m.account, Endpoint: endpoint, At: now, Day: m.calendar.At(now).Day, Cost: cost}
	call.Month = m.month(call.Day)
	if len(key.limits) > 0 {
		call.Key = key.root
	}
	if endpoint != policy.UsageEndpoint {
		call.Except = policy.UsageEndpoint
	}
	all := m.inForce(now)
	for _, l := range key.limits {
		l.OfKey = true
		all = append(all, l)
	}
	for _, l := range all {
		if l.Endpoint == endpoint || l.Endpoint == store.All && endpoint != policy.UsageEndpoint {
			limits = append(limits, l)
		}
	}
	return call, limits
}

// rooms returns what each limit of a call has left.
func (m *model) rooms(endpoint string, key *modelKey, now time.Time, cost int64) (rooms []modelRoom) {
	call, limits := m.call(endpoint, key, now, cost)
	left, _ := m.life().Rooms(call, limits)
	for i, l := range limits {
		rooms = append(rooms, m.room(l, left[i], call))
	}
	return rooms
}

func (m *model) room(l store.Limit, left store.Room, call store.Call) modelRoom {
	r := modelRoom{Limit: l, remaining: left.Remaining, full: left.Full, length: l.Period.Pace()}
	if l.Period.IsPace() {
		// The gate rounds both up, so this can be a nanosecond more than needed.
		r.wait = max(0, r.full+time.Duration(ceil(weight(l, call.Cost)*int64(r.length), l.Max))-r.length)
		return r
	}
	span := m.calendar.At(call.At)
	switch l.Period {
	case store.Week:
		span = store.Week.Span(m.calendar, call.At)
	case store.Month:
		span = m.calendar.Span(call.Month)
	}
	r.length, r.resets, r.full = span.Length(), span.End, span.End.Sub(call.At)
	if l.Period == store.Total {
		r.length, r.resets, r.full = 0, time.Time{}, math.MaxInt64
	}
	if cost := weight(l, call.Cost); r.remaining < cost {
		r.wait = r.full
		used, held := m.life().Used(call, l), m.held(call, l)
		if r.reserved = l.Max-used+min(held, used) >= cost; r.reserved {
			r.wait = min(2*time.Second, r.full)
		}
	}
	return r
}

// held is what calls in progress have reserved of a limit.
func (m *model) held(call store.Call, l store.Limit) (sum int64) {
	if l.Calls || l.Endpoint != store.All && !m.reserves(l.Endpoint) || !slices.ContainsFunc(m.config.Endpoints, func(e policy.EndpointConfig) bool { return e.CostAnswer != nil }) {
		return 0
	}
	days := call.Window(&l)
	for _, c := range m.progress {
		if (days.Has(c.Day) || l.Period == store.Total) && (!l.OfKey || c.Key == call.Key) && (l.Endpoint == store.All || c.Endpoint == l.Endpoint) {
			sum += c.Cost
		}
	}
	return sum
}

// reserves tells whether calls to an endpoint take a reservation.
// costOf is what a call costs or reserves.
func costOf(e policy.EndpointConfig) int64 {
	if e.CostAnswer != nil {
		return e.CostAnswer.Reserve
	}
	return max(1, e.Cost)
}

func (m *model) reserves(endpoint string) bool { return m.endpoint(endpoint).CostAnswer != nil }

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 { return (a + b - 1) / b }

// modelAnswer is what a client reads in an answer.
type modelAnswer struct {
	status            int
	code              string
	endpoint, period  string // of the limit that answers
	limit             int64
	of                string
	resets            string
	retry             int64
	policy, rateLimit string
}

// take answers a call, and counts it if it is admitted. elements is the length
// of the array in the body. settle changes the cost, and returns the answer that
// says so.
func (m *model) take(endpoint string, key *modelKey, now time.Time, elements int64) (answer modelAnswer, settle func(cost int64, refund bool, at time.Time) modelAnswer) {
	m.endTopUps(now)
	_, lists := m.limits(now)
	switch {
	case len(lists) == 0:
		return modelAnswer{status: http.StatusForbidden, code: "plan_required"}, nil
	case !slices.Contains(lists, endpoint):
		return modelAnswer{status: http.StatusForbidden, code: "not_entitled"}, nil
	}
	e := m.endpoint(endpoint)
	cost := costOf(e)
	if e.CostMember != "" { // first without the body
		if rooms := m.rooms(endpoint, key, now, 1); slices.ContainsFunc(rooms, lacks(1)) {
			return m.refuse(rooms, 1), nil
		}
		cost = max(1, elements)
	}
	rooms := m.rooms(endpoint, key, now, cost)
	if slices.ContainsFunc(rooms, lacks(cost)) {
		return m.refuse(rooms, cost), nil
	}
	call, limits := m.call(endpoint, key, now, cost)
	life, made := m.life(), call
	taken := life.Take(call, limits)
	rooms = m.rooms(endpoint, key, now, cost)
	if e.CostAnswer != nil {
		m.progress = append(m.progress, &made)
	}
	settle = func(settled int64, refund bool, at time.Time) modelAnswer {
		for i := range rooms {
			switch r := &rooms[i]; {
			case r.Period.IsPace(), r.Calls && !refund:
			case r.Calls:
				r.remaining = min(r.Max, r.remaining+1)
			default:
				r.remaining = min(r.Max, max(0, r.remaining+cost-settled))
			}
		}
		call := call
		call.At = at
		m.progress = slices.DeleteFunc(m.progress, func(c *store.Call) bool { return c == &made })
		m.counts.Settle(life, call, limits, taken, settled, refund)
		return fields(modelAnswer{status: http.StatusOK}, rooms)
	}
	return fields(modelAnswer{status: http.StatusOK}, rooms), settle
}

func lacks(cost int64) func(modelRoom) bool {
	return func(r modelRoom) bool { return r.remaining < weight(r.Limit, cost) }
}

func weight(l store.Limit, cost int64) int64 {
	if l.Calls {
		return 1
	}
	return cost
}

// refuse answers a call that a limit has no room for.
func (m *model) refuse(rooms []modelRoom, cost int64) modelAnswer {
	var of modelRoom
	for _, r := range rooms {
		if 0 < r.Max && r.Max < weight(r.Limit, cost) && r.Period != store.Total {
			return r.answer(http.StatusForbidden, "cost_above_limit")
		}
		if lacks(cost)(r) && (of.Endpoint == "" || cmp.Or(cmp.Compare(r.wait, of.wait), cmp.Compare(r.Period, of.Period)) > 0) {
			of = r
		}
	}
	answer := of.answer(http.StatusTooManyRequests, "rate_limited")
	if !of.resets.IsZero() {
		answer.code, answer.resets = "quota_exceeded", of.resets.Format(time.RFC3339)
		if of.reserved {
			answer.code = "quota_reserved"
		}
	}
	if answer.retry = seconds(of.wait); of.Period == store.Total {
		answer.code = "quota_exhausted"
		if answer.retry = 0; of.reserved {
			answer.code, answer.retry = "quota_reserved", 2
		}
	}
	return fields(answer, rooms)
}

func (r *modelRoom) answer(status int, code string) modelAnswer {
	of := "account"
	if r.OfKey {
		of = "key"
	}
	return modelAnswer{status: status, code: code, endpoint: r.Endpoint, period: r.Period.String(), limit: r.Max, of: of}
}

// seconds returns whole seconds, rounded up, at least 1.
func seconds(d time.Duration) int64 { return max(1, ceil(int64(d), int64(time.Second))) }

// fields adds the RateLimit fields.
func fields(answer modelAnswer, rooms []modelRoom) modelAnswer {
	var policies, limits []string
	for _, r := range rooms {
		name := r.Endpoint
		if r.OfKey {
			name = "key-" + name
		}
		if r.Period != store.Day {
			name += "-" + r.Period.String()
		}
		if r.Calls {
			name += "-calls"
		}
		number := r.Max
		if r.Soft {
			number = r.Included
		}
		policy, limit := fmt.Sprintf("%q;q=%d", name, number), fmt.Sprintf("%q;r=%d", name, max(0, r.remaining-(r.Max-number)))
		if r.Period != store.Total {
			policy += fmt.Sprintf(";w=%d", r.length/time.Second)
			limit += fmt.Sprintf(";t=%d", ceil(int64(r.full), int64(time.Second)))
		}
		policies, limits = append(policies, policy), append(limits, limit)
	}
	answer.policy, answer.rateLimit = strings.Join(policies, ", "), strings.Join(limits, ", ")
	return answer
}
