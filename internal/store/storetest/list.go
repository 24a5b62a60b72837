package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// The limits of a list, each of a different size.
const (
	dayMax, monthMax, allMax, allMonthMax = 20, 30, 40, 50
)

// limitList covers the endpoint of a call and all endpoints, by day and by
// month.
func limitList() []store.Limit {
	return []store.Limit{daily(dayMax), monthly(monthMax), all(daily(allMax)), all(monthly(allMonthMax))}
}

// The following return limits. Their endpoint is that of the call.
func daily(limit int64) store.Limit   { return store.Limit{Period: store.Day, Max: limit} }
func monthly(limit int64) store.Limit { return store.Limit{Period: store.Month, Max: limit} }

func pace(limit int64, period store.Period) store.Limit {
	return store.Limit{Period: period, Max: limit}
}

// all returns the limit for all endpoints.
func all(limit store.Limit) store.Limit {
	limit.Endpoint = store.All
	return limit
}

// ofKey returns the limit for the calls of the call's key.
func ofKey(limit store.Limit) store.Limit {
	limit.OfKey = true
	return limit
}

// forCall returns the limits with the endpoint of the call where they have
// none.
func forCall(call store.Call, limits []store.Limit) []store.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].Endpoint = cmp.Or(limits[i].Endpoint, call.Endpoint)
	}
	return limits
}

func onlyDaily(call store.Call, limit int64) []store.Limit {
	return forCall(call, []store.Limit{daily(limit)})
}

// costing returns the call with a cost.
func costing(call store.Call, cost int64) store.Call {
	call.Cost = cost
	return call
}

// on returns the call on another day.
func on(call store.Call, day calendar.Day) store.Call {
	call.Day = day
	return call
}

// sameRoom tells whether two rooms are equal. Between two requests, the clock of
// a store with a Clock goes on.
func (s *suite) sameRoom(later, earlier store.Room) bool {
	if s.ownClock && later.Full > 0 && later.Full <= earlier.Full {
		later.Full = earlier.Full
	}
	return later == earlier
}

// takeList takes a call and checks what the limits have left, which is also
// what Rooms then returns.
func (s *suite) takeList(call store.Call, limits []store.Limit, wantAdmitted bool, wantRemaining ...int64) {
	s.Helper()
	limits = forCall(call, limits)
	rooms := make([]store.Room, len(limits))
	admitted, err := s.store.Take(s.Context(), call, limits, rooms)
	remaining := make([]int64, len(rooms))
	for i, room := range rooms {
		remaining[i] = room.Remaining
		if room.Full < 0 || room.Full > 0 && !limits[i].Period.IsPace() {
			s.Errorf("take %+v from %+v: got room %+v", call, limits[i], room)
		}
	}
	if err != nil || admitted != wantAdmitted || !slices.Equal(remaining, wantRemaining) {
		s.Errorf("take %+v: got %v, %v, %v left, want %v, %v left", call, admitted, err, remaining, wantAdmitted, wantRemaining)
	}
	looked := make([]store.Room, len(limits))
	if err := s.store.Rooms(s.Context(), call, limits, looked); err != nil || !slices.EqualFunc(looked, rooms, s.sameRoom) {
		s.Errorf("rooms of %+v: got %+v, %v, want %+v as Take returned", call, looked, err, rooms)
	}
}

// middleOfMonth returns the 15th of the current month.
func (s *suite) middleOfMonth() calendar.Day {
	return s.today + 15 - calendar.Day(s.now.Day())
}

// listRemaining: each limit has its own remainder, which is reduced by the
// cost of an admitted call and by nothing else.
func (s *suite) listRemaining() {
	s.account("acc_1", "acc_2")
	convert, rates := s.call("acc_1", "convert"), s.call("acc_1", "rates")
	s.takeList(convert, limitList(), true, 19, 29, 39, 49)
	s.takeList(costing(convert, 5), limitList(), true, 14, 24, 34, 44)
	s.takeList(costing(rates, 5), limitList(), true, 15, 25, 29, 39)
	s.takeList(costing(rates, 16), limitList(), false, 15, 25, 29, 39)
	s.takeList(costing(rates, 0), limitList(), true, 14, 24, 28, 38)
	s.takeList(costing(rates, -7), limitList(), true, 13, 23, 27, 37)
	s.takeList(s.call("acc_2", "rates"), limitList(), true, 19, 29, 39, 49)
	s.wantUsed(convert, 6)
	s.wantUsed(rates, 7)

	// An unlimited call counts in the limits of later calls.
	unlimited := []store.Limit{daily(store.Unlimited), all(daily(store.Unlimited))}
	s.takeList(convert, unlimited, true, store.Unlimited-7, store.Unlimited-14)
	s.takeList(costing(convert, 5), nil, true)
	s.takeList(convert, limitList(), true, 7, 17, 20, 30)
	s.takeList(convert, []store.Limit{daily(0), all(daily(3)), monthly(20)}, false, 0, 0, 7)
}

// listAllOrNothing: a limit without room refuses the call, and then no other
// limit counts it.
func (s *suite) listAllOrNothing() {
	s.account("acc_1")
	call := s.call("acc_1", "convert")
	s.takeList(costing(call, 3), nil, true)
	for full := range limitList() {
		limits := limitList()
		limits[full].Max = 7
		want := []int64{dayMax - 3, monthMax - 3, allMax - 3, allMonthMax - 3}
		want[full] = 4
		for range 3 {
			s.takeList(costing(call, 5), limits, false, want...)
		}
		s.wantUsed(call, 3)
	}
	limits := []store.Limit{daily(7), all(daily(8))}
	s.takeList(costing(call, 4), limits, true, 0, 1)
	s.takeList(call, limits, false, 0, 1)
	s.takeList(call, limits[1:], true, 0)
}

// listRenamed: a limit of an endpoint covers the calls to the endpoint of the
// call, also if it has another name.
func (s *suite) listRenamed() {
	s.account("acc_1")
	call := byKey(s.call("acc_1", "convert"), "key_1")
	limits := []store.Limit{daily(10), monthly(20), pace(30, store.Hour), ofKey(daily(8)), ofKey(pace(9, store.Hour))}
	s.takeList(costing(call, 2), limits, true, 8, 18, 28, 6, 7)
	for i := range limits {
		limits[i].Endpoint = "exchange"
	}
	s.takeList(call, limits, true, 7, 17, 27, 5, 6)
	s.takeList(s.call("acc_1", "exchange"), limits[:2], true, 9, 19)
}

// listMonths: a month is the sum of its days, and the days of other months
// do not count, also at the end of a year.
func (s *suite) listMonths() {
	s.monthOf("acc_1", s.middleOfMonth())
	s.monthOf("acc_2", calendar.UTCDay(time.Date(s.now.Year()-1, 12, 15, 0, 0, 0, 0, time.UTC)))
}

func (s *suite) monthOf(account string, day calendar.Day) {
	s.account(account)
	first, last := day.Month()
	next := last + 1
	call := on(s.call(account, "convert"), day)
	limits := []store.Limit{daily(100), monthly(100)}
	s.takeList(call, limits, true, 99, 99)
	s.takeList(costing(on(call, first), 5), limits, true, 95, 94)   // the first day
	s.takeList(on(call, next-1), limits, true, 99, 93)              // the last day
	s.takeList(on(call, day-1), limits, true, 99, 92)               // the day before
	s.takeList(on(call, day+1), limits, true, 99, 91)               // the day after
	s.takeList(costing(on(call, first-1), 7), limits, true, 93, 93) // the month before
	s.takeList(costing(on(call, next), 9), limits, true, 91, 91)    // the month after
	s.takeList(call, limits, true, 98, 90)
	limits[1].Max = 14
	s.takeList(costing(call, 5), limits, false, 98, 4)
	s.takeList(costing(on(call, next-1), 4), limits, true, 95, 0)
	s.takeList(on(call, first), limits, false, 95, 0)
	s.takeList(on(call, next), limits, true, 90, 4)
}

// listAllEndpoints: a limit of all endpoints is the sum of the endpoints
// but the excepted one.
func (s *suite) listAllEndpoints() {
	s.account("acc_1", "acc_10")
	today, other := s.middleOfMonth(), s.middleOfMonth()+1
	call := func(endpoint string, day calendar.Day) store.Call { return on(s.call("acc_1", endpoint), day) }
	except := func(call store.Call, endpoint string) store.Call {
		call.Except = endpoint
		return call
	}
	limits := []store.Limit{all(daily(100)), all(monthly(100))}
	s.takeList(costing(call("usage", today), 20), nil, true)
	s.takeList(costing(call("usage", other), 30), nil, true)
	s.takeList(call("convert", today), limits, true, 79, 49)
	s.takeList(except(call("convert", today), "usage"), limits, true, 98, 98)
	s.takeList(except(costing(call("rates", other), 5), "usage"), limits, true, 95, 93)
	s.takeList(except(call("rates", today), "never called"), limits, true, 77, 42)
	s.takeList(except(costing(call("rates", today), 98), "usage"), limits, false, 97, 92)
	s.takeList(on(s.call("acc_10", "convert"), today), limits, true, 99, 99)
}

// giveBack: a call that is given back lowers each sum by its cost, and no count
// below zero.
func (s *suite) giveBack() {
	s.account("acc_1")
	day := s.middleOfMonth()
	call := on(s.call("acc_1", "convert"), day)
	giveBack := func(call store.Call) {
		s.Helper()
		s.settleWith(call, 0)
	}
	giveBack(call) // nothing was taken
	s.takeList(costing(call, 5), limitList(), true, 15, 25, 35, 45)
	s.takeList(costing(on(call, day-1), 10), limitList(), true, 10, 15, 30, 35)
	s.takeList(on(s.call("acc_1", "rates"), day), limitList(), true, 19, 29, 34, 34)
	giveBack(costing(on(call, day-1), 10))
	s.takeList(call, limitList(), true, 14, 24, 33, 43)
	giveBack(costing(call, 5))
	s.takeList(call, limitList(), true, 18, 28, 37, 47)
	giveBack(costing(call, 0)) // 0 is 1 also here
	s.takeList(call, limitList(), true, 18, 28, 37, 47)
	giveBack(costing(call, 5)) // more than is left
	s.takeList(call, limitList(), true, 19, 29, 38, 48)
	s.takeList(costing(call, 20), limitList(), false, 19, 29, 38, 48)
}

// resetCounts: a reset of a day lowers the sums of the month and of all
// endpoints, and changes no other account.
func (s *suite) resetCounts() {
	s.account("acc_1", "acc_2")
	day := s.middleOfMonth()
	other := on(s.call("acc_2", "convert"), day)
	s.takeList(other, nil, true)
	call, rates := on(s.call("acc_1", "convert"), day), on(s.call("acc_1", "rates"), day)
	fill := func() {
		s.takeList(costing(call, 5), nil, true)
		s.takeList(costing(on(call, day-1), 7), nil, true)
		s.takeList(costing(rates, 3), nil, true)
	}
	fill()
	s.takeList(call, limitList(), true, 14, 17, 31, 34)
	s.must(s.store.ResetCounts(s.Context(), "acc_1", "convert", day))
	s.takeList(call, limitList(), true, 19, 22, 36, 39)
	s.must(s.store.ResetCounts(s.Context(), "acc_1", "", day))
	s.takeList(call, limitList(), true, 19, 22, 39, 42)
	s.must(s.store.ResetCounts(s.Context(), "acc_1", "", day-1))
	s.must(s.store.ResetCounts(s.Context(), "acc_unknown", "", day))
	s.must(s.store.ResetCounts(s.Context(), "acc_1", "unknown", day))
	s.takeList(call, limitList(), true, 18, 28, 38, 48)
	s.wantUsed(other, 1)
}
