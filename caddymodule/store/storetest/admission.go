package storetest

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

func (s *suite) limit() {
	s.account("acc_1")
	call := s.call("acc_1", "convert")
	s.take(call, 0, 0, false)
	for used := range int64(3) {
		s.take(call, 3, used+1, true)
	}
	s.take(call, 3, 3, false)
	s.take(call, 3, 3, false)
	s.take(call, 1, 3, false) // a downgrade
	s.take(call, 5, 4, true)  // an upgrade
	s.take(call, store.Unlimited, 5, true)
	s.take(call, 0, 5, false)
	s.wantUsed(call, 5)
}

// handles: a call counts in the same counter with and without the handle of
// its grant.
func (s *suite) handles() {
	s.account("acc_1", "acc_2")
	var calls [2]store.Call
	for i := range calls {
		account := fmt.Sprintf("acc_%d", i+1)
		grant, err := s.store.Grant(s.Context(), s.create(s.newKey(account, "ci")), s.now)
		s.must(err)
		calls[i] = s.call(account, "convert")
		s.take(calls[i], 9, 1, true)
		calls[i].Handle = grant.Handle
		s.take(calls[i], 9, 2, true)
		s.must(s.store.GiveBack(s.Context(), calls[i]))
	}
	for _, call := range calls {
		s.wantUsed(call, 1)
		call.Handle = 0
		s.take(call, 2, 2, true)
		s.take(call, 2, 2, false)
	}
}

// limitUnderConcurrency: of many callers, as many are admitted as the limit
// allows, and each has another remainder.
func (s *suite) limitUnderConcurrency() {
	const callers, limit, rounds = 50, 5, 20
	s.account("acc_1")
	for round := range rounds {
		call := s.call("acc_1", fmt.Sprintf("endpoint%d", round))
		var admitted atomic.Int64
		var seen sync.Map // counts that were returned
		s.together(callers, func(int) error {
			rooms := make([]store.Room, 1)
			ok, err := s.store.Take(s.Context(), call, onlyDaily(call, limit), rooms)
			if ok {
				admitted.Add(1)
				used := limit - rooms[0].Remaining
				if _, twice := seen.LoadOrStore(used, true); twice || used < 1 || used > limit {
					return fmt.Errorf("count %d was returned twice or is out of range", used)
				}
			}
			return err
		})
		if got := admitted.Load(); got != limit {
			s.Errorf("round %d: admitted %d calls of %d", round, got, limit)
		}
		s.wantUsed(call, limit)
	}
}

// countersAreIndependent: each account, endpoint and day has its own
// counter.
func (s *suite) countersAreIndependent() {
	const accounts, endpoints, days, callers, limit = 12, 4, 3, 8, 5
	var calls []store.Call
	for a := range accounts {
		s.account(fmt.Sprintf("acc_%d", a))
		for e := range endpoints {
			for d := range days {
				calls = append(calls, store.Call{
					Account: fmt.Sprintf("acc_%d", a), Endpoint: fmt.Sprintf("e%d", e), Day: s.today - calendar.Day(d),
				})
			}
		}
	}
	admitted := make([]atomic.Int64, len(calls))
	s.together(callers, func(caller int) error {
		for i := range calls {
			at := (i + caller) % len(calls)
			ok, err := s.store.Take(s.Context(), calls[at], onlyDaily(calls[at], limit), make([]store.Room, 1))
			if err != nil {
				return err
			}
			if ok {
				admitted[at].Add(1)
			}
		}
		return nil
	})
	for i, call := range calls {
		if got := admitted[i].Load(); got != limit {
			s.Errorf("%+v: admitted %d calls, want %d", call, got, limit)
		}
		s.wantUsed(call, limit)
	}
}

func (s *suite) giveBack() {
	s.account("acc_1")
	call := s.call("acc_1", "convert")
	s.must(s.store.GiveBack(s.Context(), call)) // nothing was taken
	s.wantUsed(call, 0)
	s.take(call, 2, 1, true)
	s.take(call, 2, 2, true)
	s.must(s.store.GiveBack(s.Context(), call))
	s.wantUsed(call, 1)
	s.take(call, 2, 2, true)
	s.take(call, 2, 2, false)
	for range 5 {
		s.must(s.store.GiveBack(s.Context(), call))
	}
	s.wantUsed(call, 0)
	s.take(call, 2, 1, true)
}

// together runs fn in n goroutines that start at the same time, and fails
// the test with the first error.
func (s *suite) together(n int, fn func(i int) error) {
	s.Helper()
	var ready atomic.Int64
	failed := make(chan error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			for ready.Add(1); ready.Load() < int64(n); {
				runtime.Gosched()
			}
			if err := fn(i); err != nil {
				failed <- err
			}
		})
	}
	running.Wait()
	select {
	case err := <-failed:
		s.Fatalf("%v", err)
	default:
	}
}
