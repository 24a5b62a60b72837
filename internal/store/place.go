package store

import "github.com/caddy-tollgate/tollgate/internal/calendar"

// Place is a counter of a call, besides its endpoint.
type Place struct {
	Key    string // as in StoredCount
	Day    calendar.Day
	Counts Amount
}

// Amount is what a Place counts of a call.
type Amount uint8

// The amounts.
const (
	OfCost Amount = iota
	OfCalls
	OfOverage
)

// MaxPlaces is how many places a call has at most.
const MaxPlaces = 7

// Places are the places of a call: N of them.
type Places struct {
	List [MaxPlaces]Place
	N    int
}

func (p *Places) add(key string, day calendar.Day, counts Amount) {
	p.List[p.N] = Place{key, day, counts}
	p.N++
}

// All returns the places.
func (p *Places) All() []Place { return p.List[:p.N] }

// PlacesOf returns where a call with these limits counts. See Counter.
func PlacesOf(call *Call, limits []Limit) (p Places) {
	p.add("", call.Day, OfCost)
	if call.Key != "" {
		p.add(call.Key, call.Day, OfCost)
	}
	var calls, soft bool
	var totals [3]bool // of the account, the key and the calls
	for i := range limits {
		l := &limits[i]
		quota := !l.Period.IsPace()
		calls, soft = calls || l.Calls && quota, soft || l.Soft
		if l.Period == Total {
			switch {
			case l.Calls:
				totals[2] = true
			case l.OfKey:
				totals[1] = true
			default:
				totals[0] = true
			}
		}
	}
	if calls {
		p.add(CallsKey, call.Day, OfCalls)
	}
	if totals[0] {
		p.add("", TotalDay, OfCost)
	}
	if totals[1] {
		p.add(call.Key, TotalDay, OfCost)
	}
	if totals[2] {
		p.add(CallsKey, TotalDay, OfCalls)
	}
	if soft {
		p.add(OverageKey, call.Day, OfOverage)
	}
	return p
}

// KeyOf returns the key of the counters and buckets of a limit.
func (c *Call) KeyOf(l *Limit) string {
	switch {
	case l.Calls:
		return CallsKey
	case l.OfKey:
		return c.Key
	}
	return ""
}

// Amounts are what a call adds to its places.
type Amounts [3]int64

// Taken returns the amounts of a call that is admitted. used is what a quota had
// used before the call.
func Taken(call *Call, limits []Limit, used func(limit int) int64) Amounts {
	return Amounts{call.Weight(), Requests(limits), Overage(limits, call.Weight(), used)}
}

// Requests returns what a call adds to limits of calls: 1, or those of a batch.
func Requests(limits []Limit) (n int64) {
	n = 1
	for i := range limits {
		n = max(n, int64(limits[i].Requests))
	}
	return n
}

// Settled returns the amounts of Counter.Settle: the differences.
func Settled(call *Call, limits []Limit, rooms []Room, cost int64, refund bool) Amounts {
	taken := call.Weight()
	before := func(i int) int64 { return rooms[i].Used(&limits[i]) - limits[i].Weight(taken) }
	a := Amounts{OfCost: cost - taken}
	if refund {
		a[OfCalls] = -Requests(limits)
	}
	a[OfOverage] = Overage(limits, cost, before) - Overage(limits, taken, before)
	return a
}
