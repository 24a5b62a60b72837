package storetest

import (
	"cmp"
	"maps"
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
// its limit.
type modelLevel struct{ full, part int64 }

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
	maps.DeleteFunc(l.used, func(c store.StoredCount, used int64) bool { return used == 0 || c.Key != "" })
	l.listed = len(l.used)+len(l.credited) > 0
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

// Used is what a limit has used.
func (l *Life) Used(call store.Call, limit store.Limit) (sum int64) {
	for c, used := range l.used {
		month := limit.Period == store.Month && c.Day.String()[:len("2006-01")] == call.Day.String()[:len("2006-01")]
		covered := c.Endpoint == call.Endpoint || limit.Endpoint == store.All && c.Endpoint != call.Except
		if (c.Key != "") == limit.OfKey && (c.Key == "" || c.Key == call.Key) && covered && (month || c.Day == call.Day) {
			sum += used
		}
	}
	return sum
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
		admitted = admitted && room.Remaining >= max(1, call.Cost)
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
	if limit.OfKey {
		p.key = call.Key
	}
	return p
}

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 { return (a + b - 1) / b }

// Take counts a call that its limits admit.
func (l *Life) Take(call store.Call, limits []store.Limit) {
	l.TakePaces(call, limits)
	l.add(call, max(1, call.Cost))
}

// TakePaces takes a call from its paces, as one whose count the disk refuses.
func (l *Life) TakePaces(call store.Call, limits []store.Limit) {
	for _, limit := range limits {
		if limit.Period.IsPace() {
			debt := l.debt(call, limit) + max(1, call.Cost)*int64(limit.Period.Pace())
			l.paces[paceOf(call, limit)] = modelLevel{call.At.UnixNano() + debt/limit.Max, debt % limit.Max}
		}
	}
}

// add adds to the counters of a call. Those of a closed account do not rise from
// zero.
func (l *Life) add(call store.Call, cost int64) {
	for _, key := range slices.Compact([]string{"", call.Key}) {
		c := of(key, call.Endpoint, call.Day)
		if after := max(0, l.used[c]+cost); after != l.used[c] && (l.Open || l.used[c] > 0) {
			l.used[c] = after
		}
	}
}

// Settle changes what a call of an account counts. Nothing changes if another
// account has got the id.
func (m Model) Settle(l *Life, call store.Call, cost int64) {
	if m.Last(call.Account) == l {
		l.add(call, cost-max(1, call.Cost))
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
		for _, key := range l.Keys {
			k := of(key, endpoint, day)
			l.used[k] = max(0, l.used[k]-n) // 0 if it is closed
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
		if c.Used = used; c.Key == key && used > 0 {
			list = append(list, c.Count)
		}
	}
	return sorted(list)
}

// Bills returns the bills of an id.
func (m Model) Bills(id string) (list []book.Bill) {
	for _, l := range m[id] {
		var own []book.Bill
		of := maps.Clone(l.used)
		maps.Copy(of, l.credited)
		for c := range of {
			if calls := l.used[c] + l.credited[c]; c.Key == "" && calls > 0 {
				own = append(own, book.Bill{Account: id, Plan: l.Plan, Closed: !l.Open, Day: c.Day, Endpoint: c.Endpoint, Calls: calls, Credited: l.credited[c]})
			}
		}
		slices.SortFunc(own, func(a, b book.Bill) int {
			return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Endpoint, b.Endpoint))
		})
		list = append(list, own...)
	}
	return list
}
