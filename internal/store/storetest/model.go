package storetest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// Model is what a store counts, in the simplest way: sums over all counters, and
// the exact level of each pace. It shares no code with a store.
type Model map[string][]*Life

// Life is one of the accounts that had an id, one after the other.
type Life struct {
	Plan   string
	Open   bool     // it is not closed; only the last one of an id can be
	Keys   []string // credits lower the counters of each
	listed bool     // among the closed accounts of its id

	used     map[store.StoredCount]int64 // by key, endpoint and day
	credited map[store.StoredCount]int64
	paces    map[modelPace]modelLevel
}

type modelPace struct {
	key, endpoint string
	period        store.Period
}

// modelLevel is the instant at which a pace is full, in nanoseconds and parts of
// its limit, and the one at which it was full last.
type modelLevel struct{ full, part, busy int64 }

// of returns the counter of a key, or of an account if key is empty.
func of(key, endpoint string, day calendar.Day) store.StoredCount {
	return store.StoredCount{Key: key, Count: store.Count{Endpoint: endpoint, Day: day}}
}

// Begin makes an account.
func (m Model) Begin(id, plan string, keys ...string) *Life {
	l := &Life{
		Plan: plan, Open: true, Keys: keys,
		used: map[store.StoredCount]int64{}, credited: map[store.StoredCount]int64{}, paces: map[modelPace]modelLevel{},
	}
	m[id] = append(m[id], l)
	return l
}

// End closes an account.
func (l *Life) End() {
	l.Open = false
	maps.DeleteFunc(l.used, func(c store.StoredCount, used int64) bool {
		return used == 0 || c.Key != "" && c.Key != "~overage" || c.Day.String() == "9999-12-31"
	})
	l.listed = len(l.Counts(""))+len(l.credited) > 0
}

// Restart forgets what a process has only in its memory.
func (m Model) Restart() {
	for _, lives := range m {
		for _, l := range lives {
			clear(l.paces)
		}
	}
}

// Last returns the account that has the id, or had it last.
func (m Model) Last(id string) *Life { return m[id][len(m[id])-1] }

// days returns the days of a quota.
func days(call store.Call, limit store.Limit) (first, last calendar.Day) {
	at := call.Day.UTC()
	switch {
	case limit.Period == store.Total:
		return store.TotalDay, store.TotalDay
	case limit.Period == store.Month && call.Month != calendar.Window{}:
		return call.Month.First, call.Month.Last
	case limit.Period == store.Month:
		return call.Day.Month()
	case limit.Period == store.Week:
		monday := call.Day - calendar.Day((int(at.Weekday())+6)%7)
		return monday, monday + 6
	}
	return call.Day, call.Day
}

// keyOf returns whose calls a limit counts.
func keyOf(call store.Call, limit store.Limit) string {
	switch {
	case limit.Calls:
		return "~calls"
	case limit.OfKey:
		return call.Key
	}
	return ""
}

// Used is what a limit has used.
func (l *Life) Used(call store.Call, limit store.Limit) (sum int64) {
	first, last := days(call, limit)
	for c, used := range l.used {
		covered := c.Endpoint == call.Endpoint || limit.Endpoint == store.All && c.Endpoint != call.Except
		if c.Key == keyOf(call, limit) && covered && first <= c.Day && c.Day <= last {
			sum += used
		}
	}
	return sum
}

func weight(limit store.Limit, cost int64) int64 {
	if limit.Calls {
		return max(1, int64(limit.Requests))
	}
	return cost
}

// requests returns what a call adds to limits of calls. All limits of a call have
// the same number.
func requests(limits []store.Limit) int64 {
	if len(limits) == 0 {
		return 1
	}
	return max(1, int64(limits[0].Requests))
}

// Rooms returns what limits have left for a call, and whether they admit it.
func (l *Life) Rooms(call store.Call, limits []store.Limit) (rooms []store.Room, admitted bool) {
	admitted = true
	for _, limit := range limits {
		var room store.Room
		if limit.Period.IsPace() {
			debt, period := l.debt(call, limit), int64(limit.Period.Pace())
			room = store.Room{Remaining: max(0, (period*limit.Max-debt)/period), Full: time.Duration(ceil(debt, limit.Max))}
		} else {
			used := l.Used(call, limit)
			room = store.Room{Remaining: max(0, limit.Max-used), Over: max(0, used-limit.Max)}
		}
		rooms = append(rooms, room)
		admitted = admitted && room.Remaining >= weight(limit, max(1, call.Cost))
	}
	return rooms, admitted
}

// debt is what a pace has to refill, in nanoseconds and parts of its limit.
func (l *Life) debt(call store.Call, limit store.Limit) int64 {
	level, at := l.paces[paceOf(call, limit)], call.At.UnixNano()
	if level.full < at {
		return 0
	}
	return (level.full-at)*limit.Max + min(level.part, limit.Max)
}

func paceOf(call store.Call, limit store.Limit) modelPace {
	p := modelPace{endpoint: call.Endpoint, period: limit.Period}
	if limit.Endpoint == store.All {
		p.endpoint = store.All
	}
	p.key = keyOf(call, limit)
	return p
}

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 { return (a + b - 1) / b }

// Taken is what a model remembers of a call until it is settled.
type Taken struct {
	used, busy []int64 // by limit: before the call
}

// Take counts a call that its limits admit.
func (l *Life) Take(call store.Call, limits []store.Limit) (t Taken) {
	for _, limit := range limits {
		t.used = append(t.used, l.Used(call, limit))
	}
	l.TakePaces(call, limits)
	for _, limit := range limits {
		t.busy = append(t.busy, l.paces[paceOf(call, limit)].busy)
	}
	cost := max(1, call.Cost)
	l.add(call, limits, cost, requests(limits), t.over(limits, cost))
	return t
}

// over is how much of a call with a cost is above soft limits.
func (t Taken) over(limits []store.Limit, cost int64) (over int64) {
	for i, limit := range limits {
		if limit.Soft {
			over = max(over, min(weight(limit, cost), t.used[i]+weight(limit, cost)-limit.Included))
		}
	}
	return over
}

// TakePaces takes a call from its paces, as one whose count the disk refuses.
func (l *Life) TakePaces(call store.Call, limits []store.Limit) {
	for _, limit := range limits {
		if limit.Period.IsPace() {
			l.toPace(call, limit, weight(limit, max(1, call.Cost)), math.MaxInt64)
		}
	}
}

// toPace takes from a pace, until it is full after most nanoseconds.
func (l *Life) toPace(call store.Call, limit store.Limit, cost, most int64) {
	at, before := call.At.UnixNano(), l.paces[paceOf(call, limit)]
	debt := l.debt(call, limit) + cost*int64(limit.Period.Pace())
	after := modelLevel{at + debt/limit.Max, debt % limit.Max, before.busy}
	if before.full < at {
		after.busy = at
	}
	if after.full >= most {
		after.full, after.part = most, 0
	}
	l.paces[paceOf(call, limit)] = after
}

// settlePace sets right what a call took from a pace.
func (l *Life) settlePace(call store.Call, limit store.Limit, busy, cost int64) {
	level, at, more := l.paces[paceOf(call, limit)], call.At.UnixNano(), cost-max(1, call.Cost)
	switch {
	case more > 0:
		l.toPace(call, limit, min(more, limit.Max), max(level.full, at+int64(limit.Period.Pace())))
	case level.full >= at && level.busy == busy:
		parts := level.part + more*int64(limit.Period.Pace())
		level.full, level.part = level.full+floor(parts, limit.Max), parts-floor(parts, limit.Max)*limit.Max
		l.paces[paceOf(call, limit)] = level
	}
}

// floor returns a/b, rounded down.
func floor(a, b int64) int64 {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

// add adds to the counters of a call. Those of a closed account do not rise from
// zero.
func (l *Life) add(call store.Call, limits []store.Limit, cost, calls, over int64) {
	more := map[store.StoredCount]int64{of("", call.Endpoint, call.Day): cost}
	if call.Key != "" {
		more[of(call.Key, call.Endpoint, call.Day)] = cost
	}
	for _, limit := range limits {
		first, _ := days(call, limit)
		c := of(keyOf(call, limit), call.Endpoint, call.Day)
		if limit.Period == store.Total {
			c.Day = first
		}
		if limit.Soft {
			more[of("~overage", call.Endpoint, call.Day)] = over
		}
		switch {
		case limit.Period.IsPace():
		case limit.Calls:
			more[c], more[of("~calls", call.Endpoint, call.Day)] = calls, calls
		case limit.Period == store.Total:
			more[c] = cost
		}
	}
	for c, n := range more {
		if after := max(0, l.used[c]+n); after != l.used[c] && (l.Open || l.used[c] > 0) {
			l.used[c] = after
		}
	}
}

// Settle changes what a call of an account counts. Nothing changes if another
// account has got the id.
func (m Model) Settle(l *Life, call store.Call, limits []store.Limit, t Taken, cost int64, refund bool) {
	if m.Last(call.Account) != l {
		return
	}
	taken, calls := max(1, call.Cost), int64(0)
	if refund {
		calls = -requests(limits)
	}
	l.add(call, limits, cost-taken, calls, t.over(limits, cost)-t.over(limits, taken))
	for i, limit := range limits {
		if limit.Period.IsPace() && !limit.Calls && !refund && l.Open {
			l.settlePace(call, limit, t.busy[i], cost)
		}
	}
}

// Credit gives calls back: those of the last account of an id first.
func (m Model) Credit(id, endpoint string, day calendar.Day, calls int64) (credited int64) {
	for _, l := range slices.Backward(m[id]) {
		c := of("", endpoint, day)
		n := min(calls-credited, l.used[c])
		if n == 0 {
			continue
		}
		l.used[c], l.credited[c], credited = l.used[c]-n, l.credited[c]+n, credited+n
		for _, key := range append([]string{""}, l.Keys...) {
			if key != "" {
				k := of(key, endpoint, day)
				l.used[k] = max(0, l.used[k]-n) // 0 if it is closed
			}
			k := of(key, endpoint, store.TotalDay)
			l.used[k] = max(0, l.used[k]-n)
		}
	}
	return credited
}

// Called is what all accounts of an id have called.
func (m Model) Called(id, endpoint string, day calendar.Day) (sum int64) {
	for _, l := range m[id] {
		sum += l.used[of("", endpoint, day)] + l.credited[of("", endpoint, day)]
	}
	return sum
}

// Counts returns the counters of a key above zero, or of the account if key is
// empty.
func (l *Life) Counts(key string) (list []store.Count) {
	for c, used := range l.used {
		if c.Used = used; c.Key == key && used > 0 && c.Day != store.TotalDay {
			list = append(list, c.Count)
		}
	}
	return sorted(list)
}

func firstOf(day calendar.Day) calendar.Day {
	first, _ := day.Month()
	return first
}

// Totals returns those of store.TotalDay.
func (l *Life) Totals(key string) (list []store.Count) {
	for c, used := range l.used {
		if c.Used = used; c.Key == key && used > 0 && c.Day == store.TotalDay {
			list = append(list, c.Count)
		}
	}
	return sorted(list)
}

// Bills returns the bills of an id.
func (m Model) Bills(id string) (list []book.Bill) {
	for _, l := range m[id] {
		list = append(list, l.Bills(id)...)
	}
	return list
}

// Bills returns the bills of one account that had an id.
func (l *Life) Bills(id string) (own []book.Bill) {
	counted := maps.Clone(l.used)
	maps.Copy(counted, l.credited)
	for c := range counted {
		if calls := l.used[c] + l.credited[c]; c.Key == "" && calls > 0 && c.Day != store.TotalDay {
			own = append(own, book.Bill{
				Account: id, Plan: l.Plan, Closed: !l.Open, Day: c.Day, Period: firstOf(c.Day), Endpoint: c.Endpoint, Calls: calls, Credited: l.credited[c],
				Overage: min(calls, l.used[of("~overage", c.Endpoint, c.Day)]),
			})
		}
	}
	slices.SortFunc(own, func(a, b book.Bill) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return own
}
