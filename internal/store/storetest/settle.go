package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

func (s *suite) settleWith(call store.Call, cost int64) {
	s.Helper()
	s.must(s.store.Settle(s.Context(), call, cost))
}

// settle: a call that is settled counts its cost, and no longer what it took, in
// the limits of its account and its key. A cost above a limit makes the next call
// meet it. Paces keep what the call took.
func (s *suite) settle() {
	const took, other = 5, 3
	limits := append(limitList(), ofKey(daily(25)), ofKey(all(monthly(35))), pace(60, store.Hour))
	maxes := []int64{dayMax, monthMax, allMax - other, allMonthMax - other, 25, 35 - other}
	for i, cost := range []int64{took, 2, 0, 9, dayMax, dayMax + 1, 1000, 1e15} {
		id := fmt.Sprint("acc_", i)
		s.account(id)
		call := byKey(on(s.call(id, "convert"), s.middleOfMonth()), "key_1")
		rates := costing(call, other)
		rates.Endpoint = "rates"
		s.takeList(rates, nil, true)
		left := func(used, pace int64) (list []int64) {
			for _, limit := range maxes {
				list = append(list, max(0, limit-used))
			}
			return append(list, pace)
		}
		s.takeList(costing(call, took), limits, true, left(took, 55)...)
		s.settleWith(costing(call, took), cost)
		s.takeList(costing(call, 1e15+1), limits, false, left(cost, 55)...)
		used := cost
		if used < dayMax {
			used++
			s.takeList(call, limits, true, left(used, 54)...)
		} else {
			s.takeList(call, limits, false, left(used, 55)...)
		}
		check := func() {
			s.Helper()
			s.wantUsed(call, used)
			s.wantUsed(byKey(call, ""), used)
			s.wantUsed(rates, other)
			s.wantUsed(byKey(rates, ""), other)
		}
		check()
		s.restart()
		check()
		s.settleWith(costing(call, 0), 4) // 0 is 1 also here
		used += 3
		check()
		s.settleWith(costing(byKey(call, ""), 1), 2) // not of the key
		s.wantUsed(call, used)
		s.wantUsed(byKey(call, ""), used+1)
	}
}

// settleUnderConcurrency: callers with different endpoints, days and costs never
// exceed one of four limits, while calls are settled with at most what they took.
// With greater costs as well, each counter is still the sum of what calls have taken
// and of the costs of those that are settled.
func (s *suite) settleUnderConcurrency() {
	for round := range rounds(20) {
		for _, maxima := range []bool{true, false} {
			s.settleTogether(fmt.Sprintf("acc_%d_%v", round, maxima), maxima)
		}
	}
}

// counted is what the store has of an account at least: it is raised after the
// store, and lowered before it.
type counted struct {
	maxima  bool // calls cost at most what they take
	day     calendar.Day
	convert [2]atomic.Int64 // by day
	month   atomic.Int64
	all     atomic.Int64
}

func (c *counted) add(call store.Call, cost int64) error {
	all, month, day := c.all.Add(cost), int64(0), int64(0)
	if call.Endpoint == "convert" {
		month, day = c.month.Add(cost), c.convert[call.Day-c.day].Add(cost)
	}
	if c.maxima && (all > allMonthMax || month > monthMax || day > dayMax) {
		return fmt.Errorf("counted %d in the month, of them %d of convert, %d on a day", all, month, day)
	}
	return nil
}

func (s *suite) settleTogether(account string, maxima bool) {
	const callers = 32
	s.account(account)
	c := &counted{maxima: maxima, day: s.middleOfMonth()}
	settle := func(call store.Call) error {
		cost := max(0, rand.Int64N(2*call.Cost)-call.Cost+1) // often 0
		if !maxima {
			cost = rand.Int64N(2 * call.Cost)
		}
		if cost < call.Cost {
			if err := c.add(call, cost-call.Cost); err != nil {
				return err
			}
		}
		if err := s.store.Settle(s.Context(), call, cost); err != nil {
			return err
		}
		if cost > call.Cost {
			return c.add(call, cost-call.Cost)
		}
		return nil
	}
	var held [callers][]store.Call
	s.together(callers, func(caller int) error {
		limits := forCall(s.call(account, []string{"convert", "rates"}[caller%2]), limitList())
		for range 10 {
			call := costing(byKey(s.call(account, limits[0].Endpoint), fmt.Sprint("key_", caller%3)), 1+rand.Int64N(5))
			call.Day = c.day + calendar.Day(caller/2%2)
			admitted, err := s.store.Take(s.Context(), call, limits, make([]store.Room, len(limits)))
			if err != nil {
				return err
			}
			if !admitted {
				continue
			}
			if err := c.add(call, call.Cost); err != nil {
				return err
			}
			if rand.IntN(3) == 0 {
				held[caller] = append(held[caller], call)
			} else if err := settle(call); err != nil {
				return err
			}
		}
		return nil
	})
	check := func() {
		s.Helper()
		for _, keys := range [][]string{{""}, {"key_0", "key_1", "key_2"}} {
			var sum, convert int64
			for _, key := range keys {
				counts, err := s.store.Counts(s.Context(), account, key, c.day, c.day+1)
				s.must(err)
				for _, n := range counts {
					if sum += n.Used; n.Endpoint == "convert" {
						convert += n.Used
					}
				}
			}
			if sum != c.all.Load() || convert != c.month.Load() {
				s.Errorf("counters of keys %q have %d, of them %d of convert, want %d and %d", keys, sum, convert, c.all.Load(), c.month.Load())
			}
		}
		call := s.call(account, "convert")
		call.Day, call.Cost = c.day, 1000
		s.takeList(call, limitList(), false,
			max(0, dayMax-c.convert[0].Load()), max(0, monthMax-c.month.Load()), max(0, allMax-s.allOf(account, c.day)), max(0, allMonthMax-c.all.Load()))
	}
	check()
	s.together(callers, func(caller int) error {
		for _, call := range held[caller] {
			if err := settle(call); err != nil {
				return err
			}
		}
		return nil
	})
	check()
}

// allOf returns what an account has used on a day.
func (s *suite) allOf(account string, day calendar.Day) (sum int64) {
	s.Helper()
	counts, err := s.store.Counts(s.Context(), account, "", day, day)
	s.must(err)
	for _, c := range counts {
		sum += c.Used
	}
	return sum
}
