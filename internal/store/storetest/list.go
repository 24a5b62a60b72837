package storetest

import (
	"cmp"
	"slices"

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
