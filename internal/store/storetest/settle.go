package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// settleAfterCredit: a call that was admitted before a credit and costs less than
// it took lowers the counts of the calls since, and not below zero.
func (s *suite) settleAfterCredit() {
	s.account("acc_1")
	call := byKey(on(s.call("acc_1", "convert"), s.middleOfMonth()), "key_1")
	s.takeList(costing(call, 10), limitList(), true, 10, 20, 30, 40)
	s.must(s.store.Engine.Credit(s.Context(), "acc_1", []string{"key_1"}, call.Day, "convert", 10))
	s.settleWith(costing(call, 10), 4)
	s.takeList(costing(call, 5), limitList(), true, 15, 25, 35, 45)
	s.settleWith(costing(call, 10), 8)
	s.takeList(costing(call, 100), limitList(), false, 17, 27, 37, 47)
	s.settleWith(costing(call, 10), 14)
	s.wantUsed(call, 7)
	s.wantUsed(byKey(call, ""), 7)
	s.wantUsed(byKey(call, store.Credited), 10)
}

// settleOfDeleted: a call that is settled after its account was deleted changes
// what the account has called. It brings back no count of its key and none that was
// credited, and changes nothing for the next account with the id.
func (s *suite) settleOfDeleted() {
	s.account("acc_1")
	grant, err := s.store.Grant(s.Context(), s.create(s.newKey("acc_1", "ci")), s.now)
	s.must(err)
	call := costing(byKey(on(s.call("acc_1", "convert"), s.middleOfMonth()), grant.Key), 5)
	call.Handle = grant.Handle
	rates := call
	rates.Endpoint = "rates"
	for range 3 {
		s.takeList(call, nil, true)
	}
	s.takeList(rates, nil, true)
	s.must(s.store.Engine.Credit(s.Context(), "acc_1", []string{grant.Key}, call.Day, "rates", 5))
	s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	s.settleWith(call, 9)
	s.settleWith(call, 3)
	s.settleWith(rates, 9)
	wantUsed := func(own, closed int64) {
		s.Helper()
		s.wantUsed(byKey(call, ""), own)
		s.wantUsed(byKey(call, store.Closed), closed)
		s.wantUsed(call, 0)
		s.wantUsed(rates, 0)
		s.wantUsed(byKey(rates, ""), 0)
	}
	wantUsed(17, 0)
	s.account("acc_1")
	wantUsed(0, 17)
	s.settleWith(call, 100) // changes nothing
	s.settleWith(call, 0)
	wantUsed(0, 17)
	s.restart()
	wantUsed(0, 17)
}

// settleRandomly: after each call and each settlement, the counters are the sum of
// what calls have taken and of the costs of those that are settled.
func (s *suite) settleRandomly() {
	seed := rand.Uint64()
	s.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	s.account("acc_1")
	used := map[store.Call]int64{} // by key, endpoint and day
	add := func(call store.Call, cost int64) {
		for _, key := range slices.Compact([]string{"", call.Key}) {
			used[store.Call{Key: key, Endpoint: call.Endpoint, Day: call.Day}] += cost
		}
	}
	left := func(call store.Call, limits []store.Limit) (list []int64, admitted bool) {
		admitted = true
		for _, limit := range limits {
			room, key := limit.Max, ""
			if limit.OfKey {
				key = call.Key
			}
			for other, n := range used {
				if other.Key == key && (limit.Endpoint == store.All || other.Endpoint == call.Endpoint) && (limit.Period == store.Month || other.Day == call.Day) {
					room -= n
				}
			}
			admitted = admitted && room >= call.Cost
			list = append(list, max(0, room))
		}
		return list, admitted
	}
	var held []store.Call
	for range rounds(600) {
		if n := len(held); n > 0 && dice.IntN(2) == 0 {
			i := dice.IntN(n)
			call := held[i]
			held = slices.Delete(held, i, i+1)
			cost := dice.Int64N(call.Cost + 1)
			if dice.IntN(8) == 0 {
				cost = dice.Int64N(3 * call.Cost)
			}
			s.settleWith(call, cost)
			add(call, cost-call.Cost)
			continue
		}
		call := costing(s.call("acc_1", []string{"convert", "rates"}[dice.IntN(2)]), 1+dice.Int64N(30))
		call.Day, call.Key = s.middleOfMonth()+calendar.Day(dice.IntN(2)), []string{"", "key_1", "key_2"}[dice.IntN(3)]
		limits := []store.Limit{daily(300), monthly(500), all(daily(550)), all(monthly(1000))}
		if call.Key != "" {
			limits = append(limits, ofKey(daily(150)), ofKey(all(monthly(350))))
		}
		before, admitted := left(call, limits)
		if admitted {
			add(call, call.Cost)
			before, _ = left(call, limits)
			held = append(held, call)
		}
		s.takeList(call, limits, admitted, before...)
		if s.Failed() {
			return
		}
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
