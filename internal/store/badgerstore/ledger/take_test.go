package ledger_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
)

// TestListUnderLoad takes with four limits and two costs, and gives back,
// on a log that fails and panics while days are dropped. No limit is ever
// exceeded, and in the end memory, log and answers agree.
func TestListUnderLoad(t *testing.T) {
	t.Parallel()
	const callers, rounds, limit = 64, 40, 50
	log := newLog()
	log.before = func(group int) error {
		yield()
		switch group % 12 {
		case 5:
			return errDisk
		case 11:
			panic("log is broken")
		}
		return nil
	}
	l := ledger.New(log)
	limits := []store.Limit{
		{Period: store.Day, Max: 2 * limit},
		{Period: store.Month, Max: 2 * limit},
		{Period: store.Day, Max: limit, Endpoint: store.All},
		{Period: store.Month, Max: limit + 7, Endpoint: store.All},
	}
	var out atomic.Int64 // what calls took, or cost if they are settled
	var running, retaining sync.WaitGroup
	stop := make(chan struct{})
	retaining.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				l.RetainDays(func(calendar.Day) bool { return false })
				yield()
			}
		}
	})
	for caller := range callers {
		running.Go(func() {
			call := callOf(1)
			call.Endpoint = []string{"convert", "rates"}[caller%2]
			call.Cost = []int64{1, 5}[caller/2%2]
			for round := range rounds {
				admitted, err := l.Take(call, limits, make([]store.Room, len(limits)))
				if err != nil && !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("take: %v", err)
				}
				if !admitted {
					continue
				}
				if sum := out.Add(call.Cost); sum > limit {
					t.Errorf("%d are admitted, limit %d", sum, limit)
				}
				if (caller+round)%3 == 0 {
					continue
				}
				cost := int64(round) % call.Cost
				out.Add(cost - call.Cost)
				for l.Settle(call, nil, nil, cost, false) != nil {
				}
			}
		})
	}
	running.Wait()
	close(stop)
	retaining.Wait()
	var logged int64
	for _, endpoint := range []string{"convert", "rates"} {
		call := callOf(1)
		call.Endpoint = endpoint
		logged += log.count(call)
	}
	rooms := make([]store.Room, len(limits))
	if err := l.Rooms(callOf(1), limits, rooms); err != nil {
		t.Fatal(err)
	}
	if got := limit - rooms[2].Remaining; got != out.Load() || logged != got {
		t.Errorf("memory has %d, the log %d, want %d", got, logged, out.Load())
	}
}

// TestMonthBegins: counts of the month before do not count, and those of a
// day that is loaded late do.
func TestMonthBegins(t *testing.T) {
	t.Parallel()
	const november30, december1 = 20787, 20788
	log := newLog()
	on := func(day calendar.Day, endpoint string) store.Call {
		return store.Call{Account: "acc_1", Endpoint: endpoint, Day: day}
	}
	log.counts[on(november30-3, "convert")] = 5
	log.counts[on(november30-2, "rates")] = 7
	log.counts[on(november30-1, "usage")] = 2
	l := ledger.New(log)
	month := []store.Limit{{Period: store.Month, Max: 100}, {Period: store.Month, Max: 100, Endpoint: store.All}}
	want := func(call store.Call, want ...int64) {
		t.Helper()
		rooms := make([]store.Room, len(month))
		call.Except = "usage"
		if admitted, err := l.Take(call, month, rooms); !admitted || err != nil {
			t.Errorf("take: %v, %v", admitted, err)
		}
		for i := range want {
			if got := 100 - rooms[i].Remaining; got != want[i] {
				t.Errorf("%v: limit %d has used %d, want %d", call, i, got, want[i])
			}
		}
	}
	want(on(november30, "convert"), 6, 13)
	want(on(november30-2, "rates"), 8, 14)
	want(on(december1, "convert"), 1, 1)
	want(on(november30, "convert"), 7, 15)
	l.RetainDays(func(d calendar.Day) bool { return d == december1 })
	want(on(november30-1, "rates"), 9, 16)
	if err := edit(l, zero(on(november30-3, "convert"))); err != nil {
		t.Fatal(err)
	}
	want(on(november30, "convert"), 3, 12)
	// The sums of the other days are in memory now.
	if err := edit(l, zero(on(november30-2, "rates"))); err != nil {
		t.Fatal(err)
	}
	want(on(november30, "convert"), 4, 5)
}

// TestHugeCost: no cost makes a counter overflow.
func TestHugeCost(t *testing.T) {
	t.Parallel()
	l := ledger.New(newLog())
	call := callOf(1)
	wantTake(t, l, call, store.Unlimited, 1, true)
	call.Cost = store.Unlimited
	wantTake(t, l, call, store.Unlimited, 1, false)
	if admitted, err := l.Take(call, nil, nil); !admitted || err != nil {
		t.Errorf("without a limit: %v, %v", admitted, err)
	}
	wantTake(t, l, callOf(1), store.Unlimited, store.Unlimited, false)
}
