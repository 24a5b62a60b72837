package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

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
		if err := s.store.Settle(s.Context(), call, nil, nil, cost, false); err != nil {
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
