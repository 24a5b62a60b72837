package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

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
