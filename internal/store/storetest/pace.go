package storetest

import (
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// after returns the call that much later.
func after(call store.Call, d time.Duration) store.Call {
	call.At = call.At.Add(d)
	return call
}

// byKey returns the call of a key with limits of its own.
func byKey(call store.Call, key string) store.Call {
	call.Key = key
	return call
}

// wantFull checks when the paces of a call are full again.
func (s *suite) wantFull(call store.Call, limits []store.Limit, want ...time.Duration) {
	s.Helper()
	rooms, full := make([]store.Room, len(limits)), make([]time.Duration, len(limits))
	err := s.store.Rooms(s.Context(), call, forCall(call, limits), rooms)
	for i, room := range rooms {
		full[i] = room.Full
	}
	if err != nil || !slices.Equal(full, want) {
		s.Errorf("rooms of %+v: got full after %v, %v, want %v", call, full, err, want)
	}
}

// paces: a pace admits its capacity at once, and is refilled evenly and
// exactly.
func (s *suite) paces() {
	s.account("acc_1")
	call := s.call("acc_1", "convert")
	limits := []store.Limit{pace(3, store.Second)}
	s.wantFull(call, limits, 0)
	s.takeList(call, limits, true, 2)
	s.wantFull(call, limits, 333_333_334)
	s.takeList(call, limits, true, 1)
	s.takeList(call, limits, true, 0)
	s.takeList(call, limits, false, 0)
	s.wantFull(call, limits, time.Second)

	// A third of a second is no whole number of nanoseconds.
	s.takeList(after(call, 333_333_333), limits, false, 0)
	s.takeList(after(call, 333_333_334), limits, true, 0)
	s.takeList(after(call, 666_666_666), limits, false, 0)
	s.takeList(after(call, 666_666_667), limits, true, 0)
	s.takeList(after(call, time.Second-1), limits, false, 0)
	s.takeList(after(call, time.Second), limits, true, 0)
	s.wantFull(after(call, time.Second), limits, time.Second)

	// A call that came earlier finds no more room.
	s.takeList(call, limits, false, 0)

	// It is never more than full.
	call = after(call, time.Hour)
	s.takeList(costing(call, 4), limits, false, 3)
	s.takeList(costing(call, 2), limits, true, 1)
	s.takeList(costing(call, 2), limits, false, 1)
	s.takeList(costing(after(call, 333_333_334), 2), limits, true, 0)

	for _, period := range []store.Period{store.Minute, store.Hour} {
		limits := []store.Limit{pace(4, period)}
		s.takeList(costing(call, 4), limits, true, 0)
		s.takeList(after(call, period.Pace()/4-1), limits, false, 0)
		s.takeList(costing(after(call, period.Pace()/2), 2), limits, true, 0)
		s.wantFull(after(call, period.Pace()/2), limits, period.Pace())
	}
}

// pacesAreIndependent: each account, key, endpoint and period has its own
// bucket, and all endpoints together have one.
func (s *suite) pacesAreIndependent() {
	s.account("acc_1", "acc_10")
	one, two := s.call("acc_1", "convert"), s.call("acc_1", "rates")
	each, together := pace(2, store.Minute), all(pace(5, store.Minute))
	s.takeList(costing(one, 2), []store.Limit{each, together}, true, 0, 3)
	s.takeList(two, []store.Limit{each, together}, true, 1, 2)
	s.takeList(one, []store.Limit{each}, false, 0)
	s.takeList(one, []store.Limit{pace(2, store.Hour)}, true, 1)
	s.takeList(s.call("acc_10", "convert"), []store.Limit{each, together}, true, 1, 4)
	s.takeList(byKey(two, "key_1"), []store.Limit{ofKey(each), each, ofKey(together)}, true, 1, 0, 4)
	s.takeList(byKey(one, "key_1"), []store.Limit{ofKey(each), ofKey(together)}, true, 1, 3)
	s.takeList(byKey(one, "key_2"), []store.Limit{ofKey(each), ofKey(together)}, true, 1, 4)
	s.takeList(one, []store.Limit{each, together}, false, 0, 2)

	// A new capacity keeps the share that is used.
	s.takeList(two, []store.Limit{pace(10, store.Minute)}, false, 0)
	s.takeList(s.call("acc_10", "convert"), []store.Limit{pace(10, store.Minute)}, true, 4)
}

// pacesAllOrNothing: a quota that refuses a call takes nothing from a pace,
// and a pace that refuses takes nothing from a quota or another pace.
func (s *suite) pacesAllOrNothing() {
	s.account("acc_1")
	call := s.call("acc_1", "convert")
	s.takeList(costing(call, 3), []store.Limit{daily(10), pace(5, store.Minute), all(pace(20, store.Hour))}, true, 7, 2, 17)
	for range 3 {
		s.takeList(costing(call, 2), []store.Limit{daily(4), pace(5, store.Minute), all(pace(20, store.Hour))}, false, 1, 2, 17)
		s.takeList(costing(call, 3), []store.Limit{daily(10), pace(5, store.Minute), all(pace(20, store.Hour))}, false, 7, 2, 17)
	}
	s.wantUsed(call, 3)
	s.takeList(costing(call, 2), []store.Limit{all(pace(20, store.Hour)), pace(5, store.Minute), daily(5)}, true, 15, 0, 0)
}

// pacesOfReturnedCalls: neither Settle nor a reset changes a pace.
func (s *suite) pacesOfReturnedCalls() {
	s.account("acc_1")
	call := costing(s.call("acc_1", "convert"), 2)
	limits := []store.Limit{daily(5), pace(5, store.Minute)}
	s.takeList(call, limits, true, 3, 3)
	s.must(s.store.Settle(s.Context(), call, nil, nil, 0, false))
	s.takeList(call, limits, true, 3, 1)
	s.must(s.store.ResetCounts(s.Context(), "acc_1", "", s.today))
	s.takeList(call, limits, false, 5, 1)
	s.wantUsed(call, 0)
}

// pacesSetRight: a settlement gives back to a pace what the call did not use, unless
// the pace was full since, and takes what it used more.
func (s *suite) pacesSetRight() {
	s.account("acc_1", "acc_2", "acc_3")
	limits := []store.Limit{pace(20, store.Hour)}
	take := func(call store.Call, admitted bool) []store.Room {
		s.Helper()
		rooms := make([]store.Room, len(limits))
		if got, err := s.store.Take(s.Context(), call, limits, rooms); err != nil || got != admitted {
			s.Fatalf("take of %+v: got %v, %v", call, got, err)
		}
		return rooms
	}
	settle := func(call store.Call, rooms []store.Room, cost int64, refund bool) {
		s.Helper()
		s.must(s.store.Settle(s.Context(), call, limits, rooms, cost, refund))
	}
	call := costing(s.call("acc_1", "convert"), 10)
	first, second := take(call, true), take(call, true)
	take(costing(call, 1), false)
	settle(call, first, 1, false)
	take(costing(call, 10), false)
	take(costing(call, 9), true)
	settle(call, second, 0, true) // a refund
	take(costing(call, 1), false)

	call = costing(s.call("acc_2", "convert"), 5)
	settle(call, take(call, true), 12, false)
	take(costing(call, 9), false)
	settle(costing(call, 1), take(costing(call, 1), true), 1e12, false)
	take(costing(call, 1), false)

	limits = []store.Limit{pace(5, store.Second)}
	call = costing(s.call("acc_3", "convert"), 5)
	old := take(call, true)
	if s.ownClock {
		time.Sleep(1100 * time.Millisecond)
	}
	later := after(call, 1100*time.Millisecond)
	take(later, true)
	settle(later, old, 0, false)
	take(later, false)
}
