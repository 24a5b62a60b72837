package gate_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// model is the simplest gate for one account: sums over the list of admitted
// calls, and the exact level of each pace. It shares no code with the gate but
// the types of the configuration.
type model struct {
	account   string
	calendar  *calendar.Calendar
	config    policy.Config
	plan      string
	overrides []store.Override
	calls     []*modelCall // admitted, and not reset
	paces     map[modelPace]modelLevel
}

type modelCall struct {
	endpoint, day string
	key           string // with limits of its own, or ""
	cost          int64  // the reservation until it is settled
	inProgress    bool   // with a reservation
}

// modelKey is a key. root is the id that its calls count for.
type modelKey struct {
	id, root, bearer string
	limits           []store.Limit
}

type modelPace struct {
	key, endpoint string
	period        store.Period
}

// modelLevel is the instant at which a pace is full, in nanoseconds and parts
// of its limit.
type modelLevel struct{ full, part int64 }

// modelRoom is what a limit has left for a call, and what the fields say.
type modelRoom struct {
	store.Limit
	remaining    int64
	wait, full   time.Duration // for the cost of the call, and until it is full
	length       time.Duration
	resets       time.Time // zero for a pace
	id           modelPace
	debt, period int64
	reserved     bool // only calls in progress refuse the cost
}

// day returns the date of an instant.
func (m *model) day(at time.Time) string { return m.calendar.At(at).Day.String() }

// endpoint returns the configuration of an endpoint.
func (m *model) endpoint(name string) policy.EndpointConfig {
	at := slices.IndexFunc(m.config.Endpoints, func(e policy.EndpointConfig) bool { return e.Name == name })
	if at < 0 {
		return policy.EndpointConfig{Name: policy.UsageEndpoint}
	}
	return m.config.Endpoints[at]
}

// limits returns the limits of a plan in their order, and the endpoints that
// it lists.
func (m *model) limits() (limits []store.Limit, lists []string) {
	at := slices.IndexFunc(m.config.Plans, func(p policy.PlanConfig) bool { return p.Name == m.plan })
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
		limits = append(limits, store.Limit{Endpoint: l.Endpoint, Period: period, Max: int64(l.Limit)})
	}
	return limits, lists
}

// inForce returns the limits of the account at an instant: those of the plan,
// with its overrides.
func (m *model) inForce(now time.Time) []store.Limit {
	limits, _ := m.limits()
	for _, o := range m.overrides {
		if !o.ExpiresAt.IsZero() && !now.Before(o.ExpiresAt) {
			continue
		}
		if at := slices.IndexFunc(limits, func(l store.Limit) bool { return l.Endpoint == o.Endpoint && l.Period == o.Period }); at >= 0 {
			limits[at].Max = o.Max
		} else {
			limits = append(limits, o.Limit)
		}
	}
	return slices.DeleteFunc(limits, func(l store.Limit) bool { return l.Max == store.Unlimited })
}

// rooms returns what each limit of a call has left.
func (m *model) rooms(endpoint string, key *modelKey, now time.Time, cost int64) (rooms []modelRoom) {
	limits := m.inForce(now)
	for _, l := range key.limits {
		l.OfKey = true
		limits = append(limits, l)
	}
	for _, l := range limits {
		if l.Endpoint == endpoint || l.Endpoint == store.All && endpoint != policy.UsageEndpoint {
			rooms = append(rooms, m.room(l, key, now, cost))
		}
	}
	return rooms
}

func (m *model) room(l store.Limit, key *modelKey, now time.Time, cost int64) modelRoom {
	r := modelRoom{Limit: l, id: modelPace{endpoint: l.Endpoint, period: l.Period}}
	if l.OfKey {
		r.id.key = key.root
	}
	if l.Period.IsPace() {
		r.length = l.Period.Pace()
		r.period = int64(r.length)
		if level := m.paces[r.id]; level.full >= now.UnixNano() {
			r.debt = (level.full-now.UnixNano())*l.Max + min(level.part, l.Max)
		}
		r.remaining = (r.period*l.Max - r.debt) / r.period
		r.full = time.Duration(ceil(r.debt, l.Max))
		// The gate rounds both up, so this can be a nanosecond more than needed.
		r.wait = max(0, r.full+time.Duration(ceil(cost*r.period, l.Max))-r.length)
		return r
	}
	span, label := m.calendar.At(now), m.day(now)
	if l.Period == store.Month {
		span, label = m.calendar.Month(now), label[:len("2006-01")]
	}
	r.length, r.resets = span.Length(), span.End
	r.full = span.End.Sub(now)
	used, held := m.used(r.id, label)
	r.remaining = max(0, l.Max-used)
	if r.remaining < cost {
		r.wait = r.full
		if l.Endpoint != store.All && !m.reserves(l.Endpoint) {
			held = 0
		}
		if r.reserved = l.Max-used+min(held, used) >= cost; r.reserved {
			r.wait = min(2*time.Second, r.full)
		}
	}
	return r
}

// reserves tells whether calls to an endpoint take a reservation.
func (m *model) reserves(endpoint string) bool { return m.endpoint(endpoint).CostHeader != "" }

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 { return (a + b - 1) / b }

// used sums up the calls of a key, or of the account, on a day or in a month, and
// what those in progress have reserved of it.
func (m *model) used(of modelPace, label string) (sum, held int64) {
	for _, c := range m.calls {
		if (of.key == "" || c.key == of.key) && strings.HasPrefix(c.day, label) &&
			(c.endpoint == of.endpoint || of.endpoint == store.All && c.endpoint != policy.UsageEndpoint) {
			sum += c.cost
			if c.inProgress && slices.ContainsFunc(m.config.Endpoints, func(e policy.EndpointConfig) bool { return e.CostHeader != "" }) {
				held += c.cost
			}
		}
	}
	return sum, held
}

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
func (m *model) take(endpoint string, key *modelKey, now time.Time, elements int64) (answer modelAnswer, settle func(cost int64) modelAnswer) {
	_, lists := m.limits()
	switch {
	case len(lists) == 0:
		return modelAnswer{status: http.StatusForbidden, code: "plan_required"}, nil
	case !slices.Contains(lists, endpoint):
		return modelAnswer{status: http.StatusForbidden, code: "not_entitled"}, nil
	}
	e := m.endpoint(endpoint)
	cost := max(1, e.Cost, e.CostReserve)
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
	call := &modelCall{endpoint: endpoint, day: m.day(now), cost: cost, inProgress: e.CostHeader != ""}
	if len(key.limits) > 0 {
		call.key = key.root
	}
	m.calls = append(m.calls, call)
	for i := range rooms {
		rooms[i].remaining -= cost
		if r := &rooms[i]; r.period > 0 {
			r.debt += cost * r.period
			r.full = time.Duration(ceil(r.debt, r.Max))
			m.paces[r.id] = modelLevel{now.UnixNano() + r.debt/r.Max, r.debt % r.Max}
		}
	}
	settle = func(settled int64) modelAnswer {
		for i := range rooms {
			if r := &rooms[i]; r.period == 0 {
				r.remaining = min(r.Max, max(0, r.remaining+call.cost-settled))
			}
		}
		call.cost, call.inProgress = settled, false
		return fields(modelAnswer{status: http.StatusOK}, rooms)
	}
	return fields(modelAnswer{status: http.StatusOK}, rooms), settle
}

func lacks(cost int64) func(modelRoom) bool {
	return func(r modelRoom) bool { return r.remaining < cost }
}

// refuse answers a call that a limit has no room for.
func (m *model) refuse(rooms []modelRoom, cost int64) modelAnswer {
	var of modelRoom
	for _, r := range rooms {
		if 0 < r.Max && r.Max < cost {
			return r.answer(http.StatusForbidden, "cost_above_limit")
		}
		if r.remaining < cost && (of.Endpoint == "" || cmp.Or(cmp.Compare(r.wait, of.wait), cmp.Compare(r.Period, of.Period)) > 0) {
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
	answer.retry = seconds(of.wait)
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
		full := ceil(int64(r.full), int64(time.Second))
		policies = append(policies, fmt.Sprintf("%q;q=%d;w=%d", name, r.Max, r.length/time.Second))
		limits = append(limits, fmt.Sprintf("%q;r=%d;t=%d", name, r.remaining, full))
	}
	answer.policy, answer.rateLimit = strings.Join(policies, ", "), strings.Join(limits, ", ")
	return answer
}
