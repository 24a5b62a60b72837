package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// keyLimits: the limits of a key cover its calls only. A call needs room in
// them and in those of the account, and counts in both or in none.
func (s *suite) keyLimits() {
	s.account("acc_1", "acc_2")
	for _, name := range []string{"a", "b"} {
		s.create(s.newKey("acc_1", name))
	}
	plain := s.call("acc_1", "convert")
	a, b := byKey(plain, "key_acc_1_a"), byKey(plain, "key_acc_1_b")
	limits := []store.Limit{daily(20), ofKey(daily(10))}
	s.takeList(costing(plain, 3), []store.Limit{daily(20)}, true, 17)
	s.takeList(costing(a, 6), limits, true, 11, 4)
	s.takeList(costing(b, 2), limits, true, 9, 8)
	s.takeList(costing(a, 5), limits, false, 9, 4)   // too much for the key
	s.takeList(costing(b, 8), limits, true, 1, 0)    // its room is its own
	s.takeList(costing(a, 2), limits, false, 1, 4)   // too much for the account
	s.takeList(a, []store.Limit{daily(20)}, true, 0) // counts for the key also without its limits
	s.takeList(plain, nil, true)
	s.takeList(costing(a, 2), []store.Limit{ofKey(daily(10))}, true, 1)
	s.wantUsed(plain, 23)
	s.wantUsed(a, 9)
	s.wantUsed(b, 10)
	s.wantUsed(byKey(plain, "key_unknown"), 0)
	other := byKey(s.call("acc_2", "convert"), a.Key)
	s.wantUsed(other, 0)

	s.must(s.store.Settle(s.Context(), costing(a, 2), 0))
	s.wantUsed(plain, 21)
	s.wantUsed(a, 7)
	s.must(s.store.Settle(s.Context(), costing(a, 20), 0)) // neither is below zero
	s.wantUsed(plain, 1)
	s.wantUsed(a, 0)
	s.must(s.store.Settle(s.Context(), plain, 0)) // not of a key
	s.wantUsed(b, 10)
}

// keyLimitSums: the limits of a key cover months and all endpoints.
func (s *suite) keyLimitSums() {
	s.account("acc_1")
	s.create(s.newKey("acc_1", "ci"))
	day := s.middleOfMonth()
	convert := byKey(on(s.call("acc_1", "convert"), day), "key_acc_1_ci")
	rates, usage := convert, convert
	rates.Endpoint, usage.Endpoint = "rates", "usage"
	convert.Except, rates.Except = "usage", "usage"
	limits := []store.Limit{
		ofKey(daily(100)), ofKey(monthly(100)), ofKey(all(daily(100))), ofKey(all(monthly(100))),
		all(monthly(1000)),
	}
	s.takeList(costing(byKey(convert, ""), 50), nil, true)
	s.takeList(costing(usage, 30), nil, true)
	s.takeList(convert, limits, true, 99, 99, 99, 99, 949)
	s.takeList(costing(on(convert, day-1), 2), limits, true, 98, 97, 98, 97, 947)
	s.takeList(costing(rates, 3), limits, true, 97, 97, 96, 94, 944)
	s.takeList(convert, limits, true, 98, 96, 95, 93, 943)
	s.takeList(costing(convert, 94), limits, false, 98, 96, 95, 93, 943)
	s.takeList(costing(on(convert, day+60), 5), limits, true, 95, 95, 95, 95, 995)

	convert.Except = ""
	s.takeList(convert, []store.Limit{ofKey(all(daily(100)))}, true, 64)
	got, err := s.store.Counts(s.Context(), "acc_1", convert.Key, day-1, day)
	want := []store.Count{
		{Day: day - 1, Endpoint: "convert", Used: 2},
		{Day: day, Endpoint: "convert", Used: 3},
		{Day: day, Endpoint: "rates", Used: 3},
		{Day: day, Endpoint: "usage", Used: 30},
	}
	if err != nil || !slices.Equal(sorted(got), want) {
		s.Errorf("counts of the key: got %+v, %v, want %+v", got, err, want)
	}
}

// keyCounts: the counts of a key follow its rotation, are kept by a restart,
// and are cleared by a reset and by the deletion of the account.
func (s *suite) keyCounts() {
	s.account("acc_1", "acc_10")
	day := s.middleOfMonth()
	call := func(account, endpoint, key string) store.Call { return byKey(on(s.call(account, endpoint), day), key) }
	limited := func(key store.Key) store.Key {
		key.Limits = []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 10, OfKey: true}}
		return key
	}
	first, other := limited(s.newKey("acc_1", "first")), limited(s.newKey("acc_1", "other"))
	s.create(first)
	s.create(other)
	second, third := s.successor(first, "key_second"), s.successor(first, "key_third")
	second.CreatedAt, third.CreatedAt = s.now.Add(time.Second), s.now.Add(2*time.Second)
	calls := func(key string) store.Call {
		s.Helper()
		grant, err := s.store.Grant(s.Context(), hashOf(key), s.now)
		s.must(err)
		if grant.Restriction == nil {
			s.Fatalf("grant of %s: no restriction", key)
		}
		return call("acc_1", "convert", grant.Restriction.CountsAs)
	}
	limits := []store.Limit{ofKey(daily(10)), ofKey(monthly(50))}
	s.takeList(costing(calls(first.ID), 5), limits, true, 5, 45)
	s.takeList(costing(calls(other.ID), 9), limits, true, 1, 41)
	s.must(s.replace(first.ID, second, s.now.Add(time.Hour)))
	s.takeList(calls(second.ID), limits, true, 4, 44)
	s.must(s.replace(second.ID, third, s.now.Add(time.Hour)))
	got, err := s.store.Key(s.Context(), "acc_1", third.ID)
	s.must(err)
	s.wantKey(got, third)
	s.takeList(calls(third.ID), limits, true, 3, 43)
	s.takeList(calls(first.ID), limits, true, 2, 42) // during the overlap
	s.restart()
	s.takeList(calls(third.ID), limits, true, 1, 41)
	s.takeList(calls(other.ID), limits, true, 0, 40)

	rates := calls(third.ID)
	rates.Endpoint = "rates"
	neighbor := call("acc_10", "convert", third.CountsAs())
	for _, taken := range []store.Call{rates, neighbor, on(calls(third.ID), day-1)} {
		s.takeList(taken, nil, true)
	}
	s.must(s.store.ResetCounts(s.Context(), "acc_1", "convert", day))
	wantUsed := func(first, other, rates, yesterday int64) {
		s.Helper()
		s.wantUsed(call("acc_1", "convert", third.CountsAs()), first)
		s.wantUsed(call("acc_1", "convert", "key_acc_1_other"), other)
		s.wantUsed(call("acc_1", "rates", third.CountsAs()), rates)
		s.wantUsed(on(call("acc_1", "convert", third.CountsAs()), day-1), yesterday)
		s.wantUsed(neighbor, 1)
	}
	wantUsed(0, 0, 1, 1)
	s.must(s.store.ResetCounts(s.Context(), "acc_1", "", day))
	wantUsed(0, 0, 0, 1)
	s.takeList(costing(calls(third.ID), 7), limits, true, 3, 42)
	s.restart()
	wantUsed(7, 0, 0, 1)

	s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	for range 2 {
		s.account("acc_1")
		wantUsed(0, 0, 0, 0)
		s.restart()
	}
}

// exactAdmission: of concurrent calls with four limits, exactly as many are
// admitted as the smallest allows, and each counter has their cost.
func (s *suite) exactAdmission() {
	const callers = 50
	s.account("acc_1")
	s.create(s.newKey("acc_1", "ci"))
	for _, cost := range []int64{1, 7} {
		for _, scale := range []int64{1, cost} {
			for round := range rounds(10) {
				endpoint := fmt.Sprintf("e%d-%d-%d", cost, scale, round)
				s.must(s.store.ResetCounts(s.Context(), "acc_1", "", s.today))
				call := costing(byKey(s.call("acc_1", endpoint), "key_acc_1_ci"), cost)
				limits := forCall(call, []store.Limit{
					daily(40 * scale), monthly(30 * scale), all(daily(20 * scale)), ofKey(daily(10 * scale)),
				})
				var admitted atomic.Int64
				s.together(callers, func(int) error {
					ok, err := s.store.Take(s.Context(), call, limits, make([]store.Room, len(limits)))
					if ok {
						admitted.Add(1)
					}
					return err
				})
				want := 10 * scale / cost
				if got := admitted.Load(); got != want {
					s.Errorf("cost %d, limits times %d: admitted %d calls, want %d", cost, scale, got, want)
				}
				s.wantUsed(call, want*cost)
				s.wantUsed(byKey(call, ""), want*cost)
				left := want * cost
				s.takeList(costing(call, 10*scale+1), limits, false, 40*scale-left, 30*scale-left, 20*scale-left, 10*scale-left)
			}
		}
	}
}
