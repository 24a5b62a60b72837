package ledger_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
)

// everywhere has limits with which a call of a key counts in all places.
var everywhere = []store.Limit{
	{Period: store.Total, Max: 100}, {Period: store.Total, Max: 100, OfKey: true}, {Period: store.Total, Max: 100, Calls: true},
	{Period: store.Day, Max: 100, Soft: true, Included: 1},
}

func everywhereCall(account int) store.Call {
	call := callOf(account)
	call.Key, call.Cost = "key_1", 3
	return call
}

// wantPlaces checks what the log has of such a call.
func wantPlaces(t *testing.T, log *memoryLog, call store.Call, cost, calls, overage int64) {
	t.Helper()
	places := store.PlacesOf(&call, everywhere)
	if places.N != store.MaxPlaces {
		t.Fatalf("a call has %d places, want %d", places.N, store.MaxPlaces)
	}
	for _, p := range places.All() {
		want := [...]int64{cost, calls, overage}[p.Counts]
		of := store.Call{Account: ledger.Holder(call.Account, p.Key), Endpoint: call.Endpoint, Day: p.Day}
		if got := log.count(of); got != want {
			t.Errorf("%v: the log has %d, want %d", of, got, want)
		}
	}
}

// TestPlacesAreOneStep: all counters of a call change in one group, or none does,
// when it is taken and when it is settled.
func TestPlacesAreOneStep(t *testing.T) {
	t.Parallel()
	log := newLog()
	l := ledger.New(log)
	call, rooms := everywhereCall(1), make([]store.Room, len(everywhere))
	failsOnce := func(do func() error) {
		t.Helper()
		works := log.before
		log.before = func(int) error { return errDisk }
		if err := do(); !errors.Is(err, errDisk) {
			t.Errorf("got %v, want %v", err, errDisk)
		}
		log.before = works
		groups := len(log.seen())
		if err := do(); err != nil {
			t.Error(err)
		}
		if seen := log.seen(); len(seen) != groups+1 {
			t.Errorf("got %d groups, want one", len(seen)-groups)
		}
	}
	failsOnce(func() error { _, err := l.Take(call, everywhere, rooms); return err })
	wantPlaces(t, log, call, 3, 1, 2)
	failsOnce(func() error { return l.Settle(call, everywhere, rooms, 8, false) })
	wantPlaces(t, log, call, 8, 1, 7)

	if _, err := l.Take(call, everywhere, rooms); err != nil {
		t.Fatal(err)
	}
	wantPlaces(t, log, call, 11, 2, 10)
	failsOnce(func() error { return l.Settle(call, everywhere, rooms, 0, true) })
	wantPlaces(t, log, call, 8, 1, 7)
}

// TestGroupsOfPlaces: calls with many counters fill no group beyond its limit.
func TestGroupsOfPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers = 2*ledger.MaxGroup/store.MaxPlaces + 9
		log, release := newLog(), make(chan struct{})
		l := ledger.New(log)
		take := func(account int) {
			if admitted, err := l.Take(everywhereCall(account), everywhere, make([]store.Room, len(everywhere))); !admitted || err != nil {
				t.Errorf("account %d: %v, %v", account, admitted, err)
			}
		}
		take(0)
		log.before = func(group int) error {
			if group == 1 {
				<-release
			}
			return nil
		}
		var running sync.WaitGroup
		for account := range callers {
			running.Go(func() { take(account + 1) })
			synctest.Wait()
		}
		close(release)
		running.Wait()
		counters := 0
		for _, g := range log.seen()[2:] {
			counters += g.entries
			if g.entries > ledger.MaxGroup {
				t.Errorf("a group has %d counters, more than %d", g.entries, ledger.MaxGroup)
			}
		}
		if want := (callers - 1) * store.MaxPlaces; counters != want || len(log.seen()) != 5 {
			t.Errorf("got %d counters in %d groups, want %d in 5", counters, len(log.seen()), want)
		}
	})
}

// TestTotalsUnderLoad: calls that count on two days are taken and settled while both
// days are dropped and loaded. No limit is exceeded, and none is lost.
func TestTotalsUnderLoad(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 60
	log := newLog()
	log.before = func(int) error { yield(); return nil }
	l := ledger.New(log)
	limits := []store.Limit{{Period: store.Total, Max: callers * each}, {Period: store.Week, Max: store.Unlimited}}
	stop := make(chan struct{})
	var running, retaining sync.WaitGroup
	retaining.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				l.RetainDays(func(day calendar.Day) bool { return i%2 == 0 && day == today })
				yield()
			}
		}
	})
	for range callers {
		running.Go(func() {
			rooms := make([]store.Room, len(limits))
			for i := range each {
				call := callOf(1)
				call.Cost = 2
				admitted, err := l.Take(call, limits, rooms)
				if err == nil && admitted {
					err = l.Settle(call, limits, rooms, int64(i%3), false)
				}
				if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}
		})
	}
	running.Wait()
	close(stop)
	retaining.Wait()
	total := callOf(1)
	total.Day = store.TotalDay
	if got, want := log.count(total), log.count(callOf(1)); got != want || got == 0 || got > callers*each {
		t.Errorf("the total is %d and the day has %d, want the same", got, want)
	}
}

// TestEditWithTotals: an edit of a day and of totals is one write, also if neither
// is in memory.
func TestEditWithTotals(t *testing.T) {
	t.Parallel()
	for _, loaded := range []bool{false, true} {
		log := newLog()
		l := ledger.New(log)
		total := callOf(1)
		total.Day = store.TotalDay
		log.counts[callOf(1)], log.counts[total] = 5, 3
		if loaded {
			wantTake(t, l, callOf(1), 5, 5, false)
		}
		e := ledger.Edit{
			Endpoint: "convert", Day: today, Holders: []string{"acc_1"}, Totals: []string{"acc_1"},
			Change: func(used []int64) { used[0], used[1] = used[0]-2, used[1]-2 },
		}
		log.before = func(int) error { return errDisk }
		if err := edit(l, e); !errors.Is(err, errDisk) || log.count(callOf(1)) != 5 || log.count(total) != 3 {
			t.Errorf("on a disk that fails: got %v, then %d and %d", err, log.count(callOf(1)), log.count(total))
		}
		groups := len(log.seen())
		log.before = func(int) error { return nil }
		if err := edit(l, e); err != nil || log.count(callOf(1)) != 3 || log.count(total) != 1 || len(log.seen()) != groups+1 {
			t.Errorf("got %v, then %d and %d in %d groups, want 3 and 1 in one", err, log.count(callOf(1)), log.count(total), len(log.seen())-groups)
		}
		rooms := make([]store.Room, 2)
		limits := []store.Limit{{Period: store.Day, Max: 10}, {Period: store.Total, Max: 10}}
		if err := l.Rooms(callOf(1), limits, rooms); err != nil || rooms[0].Remaining != 7 || rooms[1].Remaining != 9 {
			t.Errorf("left are %+v, %v, want 7 and 9", rooms, err)
		}
	}
}

// TestWindows compares quotas with the sums of a map. Days are dropped and loaded
// in between, edited in memory and in the log, the month of an account changes, and
// ledgers are opened anew.
func TestWindows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const first, last = today - 40, today + 9
		log, counts := newLog(), map[store.Call]int64{}
		l := ledger.New(log)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			call := store.Call{
				Account:  fmt.Sprint("acc_", rapid.IntRange(1, 2).Draw(t, "account")),
				Endpoint: rapid.SampledFrom([]string{"convert", "rates", "usage"}).Draw(t, "endpoint"),
				Day:      calendar.Day(rapid.IntRange(first, last).Draw(t, "day")),
			}
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				keep := calendar.Day(rapid.IntRange(first, last).Draw(t, "kept"))
				l.RetainDays(func(day calendar.Day) bool { return day >= keep && day <= keep+3 })
			case 1:
				if err := edit(l, zero(call)); err != nil {
					t.Fatal(err)
				}
				delete(counts, call)
			case 2:
				l = ledger.New(log)
			default:
				takeInWindows(t, l, call, counts)
			}
		}
	})
}

// takeInWindows takes a call with limits of a week and a month, and checks the rooms.
func takeInWindows(t *rapid.T, l *ledger.Ledger, of store.Call, counts map[store.Call]int64) {
	const limit = 30
	call := of
	call.Cost = rapid.Int64Range(1, 5).Draw(t, "cost")
	if rapid.Bool().Draw(t, "own month") {
		call.Month = of.Day.MonthFrom(rapid.IntRange(1, 31).Draw(t, "first day of the month"))
		call.Month.Last += calendar.Day(rapid.IntRange(0, 20).Draw(t, "longer")) // its first day has changed
	}
	call.Except = rapid.SampledFrom([]string{"", "usage"}).Draw(t, "except")
	if call.Except == call.Endpoint {
		call.Except = ""
	}
	var limits []store.Limit
	var used []int64
	admits := true
	for _, period := range []store.Period{store.Day, store.Week, store.Month} {
		for _, endpoint := range []string{call.Endpoint, store.All} {
			limits = append(limits, store.Limit{Endpoint: endpoint, Period: period, Max: limit})
			days, sum := call.Window(&limits[len(limits)-1]), int64(0)
			for c, n := range counts {
				if c.Account == call.Account && days.Has(c.Day) && (c.Endpoint == endpoint || endpoint == store.All && c.Endpoint != call.Except) {
					sum += n
				}
			}
			used, admits = append(used, sum), admits && sum+call.Cost <= limit
		}
	}
	rooms := make([]store.Room, len(limits))
	admitted, err := l.Take(call, limits, rooms)
	if err != nil || admitted != admits {
		t.Fatalf("%+v: got %v, %v, want %v; used is %d", call, admitted, err, admits, used)
	}
	for i, room := range rooms {
		want := used[i]
		if admitted {
			want += call.Cost
		}
		if got := room.Used(&limits[i]); got != want {
			t.Errorf("%+v and %+v: got %d used, want %d", call, limits[i], got, want)
		}
	}
	if admitted {
		counts[of] += call.Cost
	}
}
