package ledger_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

var now = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// TestClockMoves: a clock that steps over midnight and back, or days
// ahead and back, finds every day's count where it left it.
func TestClockMoves(t *testing.T) {
	t.Parallel()
	const limit = 5
	l := ledger.New(newLog())
	taken := map[calendar.Day]int64{}
	for i, day := range []calendar.Day{10, 11, 10, 11, 11, 13, 10, 12, 10, 11, 10, 10, 11, 13, 10} {
		if i%4 == 3 { // what is over is let go now and then
			l.RetainDays(func(d calendar.Day) bool { return d == day })
		}
		admitted := taken[day] < limit
		if admitted {
			taken[day]++
		}
		wantTake(t, l, store.Call{Account: "acc_1", Endpoint: "convert", Day: day}, limit, taken[day], admitted)
	}
}

// TestRetainDaysUnderLoad lets go of days while calls are counted in
// them: the counts come back from the log, none missing.
func TestRetainDaysUnderLoad(t *testing.T) {
	t.Parallel()
	const callers, days, limit = 8, 3, 400
	log := newLog()
	log.before = func(int) error { yield(); return nil }
	l := ledger.New(log)
	var admitted [days]atomic.Int64
	var running, retaining sync.WaitGroup
	stop := make(chan struct{})
	retaining.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				l.RetainDays(func(d calendar.Day) bool { return int(d)%days == n%days })
			}
		}
	})
	for range callers {
		running.Go(func() {
			for i := range limit {
				day := i % days
				_, ok, err := takeOne(l, store.Call{Account: "acc_1", Endpoint: "convert", Day: calendar.Day(day)}, limit)
				if err != nil {
					t.Errorf("take: %v", err)
				}
				if ok {
					admitted[day].Add(1)
				}
			}
		})
	}
	running.Wait()
	close(stop)
	retaining.Wait()
	for day := range days {
		call := store.Call{Account: "acc_1", Endpoint: "convert", Day: calendar.Day(day)}
		got := admitted[day].Load()
		if got > limit {
			t.Errorf("day %d: admitted %d, limit %d", day, got, limit)
		}
		wantTake(t, l, call, 0, got, false)
	}
}

// TestResetOfUnloadedDay: a day that is not in memory is reset in the log
// and not loaded.
func TestResetOfUnloadedDay(t *testing.T) {
	t.Parallel()
	log := newLog()
	l := ledger.New(log)
	wantTake(t, l, callOf(1), 9, 1, true)
	wantTake(t, l, callOf(2), 9, 1, true)
	l.RetainDays(func(calendar.Day) bool { return false })
	if err := reset(l); err != nil {
		t.Fatalf("reset: %v", err)
	}
	if got := log.count(callOf(1)); got != 0 {
		t.Errorf("the log has %d, want 0", got)
	}
	wantTake(t, l, callOf(1), 9, 1, true)
	wantTake(t, l, callOf(2), 9, 2, true)
}

// TestDayBeginsUnderLoad: of many callers that a day begins with, all
// count in the same place, and a reset at that moment hits the log and
// the memory alike.
func TestDayBeginsUnderLoad(t *testing.T) {
	t.Parallel()
	const rounds, callers, limit = 100, 4, 3
	for range rounds {
		log := newLog()
		log.before = func(int) error { yield(); return nil }
		log.counts[callOf(1)] = 1
		l := ledger.New(log)
		var admitted atomic.Int64
		var running sync.WaitGroup
		for range callers {
			running.Go(func() {
				_, ok, err := takeOne(l, callOf(0), limit)
				if err != nil {
					t.Errorf("take: %v", err)
				}
				if ok {
					admitted.Add(1)
				}
			})
		}
		running.Go(func() {
			if err := reset(l); err != nil {
				t.Errorf("reset: %v", err)
			}
		})
		running.Wait()
		if admitted.Load() != limit {
			t.Errorf("admitted %d, want %d", admitted.Load(), limit)
		}
		wantTake(t, l, callOf(1), 0, 0, false)
		if got := log.count(callOf(1)); got != 0 {
			t.Errorf("the log has %d after a reset", got)
		}
	}
}

// TestExpiry: a token is dead at its expiry, to the nanosecond.
func TestExpiry(t *testing.T) {
	t.Parallel()
	l := ledger.New(nil)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	hash := token.Hash{1}
	l.PutToken(&ledger.Token{Hash: hash, Account: "acc_1", ID: "key_1", ExpiresAt: now})
	if _, err := l.Grant(&hash, now.Add(-1)); err != nil {
		t.Errorf("just before: %v", err)
	}
	if _, err := l.Grant(&hash, now); !errors.Is(err, store.ErrNoGrant) {
		t.Errorf("at its expiry: got %v, want %v", err, store.ErrNoGrant)
	}
}

// TestLoadDayFails: without the day's counts nothing is admitted, and the
// next call tries again.
func TestLoadDayFails(t *testing.T) {
	t.Parallel()
	log := &failingLoad{memoryLog: newLog()}
	l := ledger.New(log)
	log.fail.Store(true)
	if _, admitted, err := takeOne(l, callOf(1), 9); admitted || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("take: got %v, %v", admitted, err)
	}
	log.fail.Store(false)
	wantTake(t, l, callOf(1), 9, 1, true)
}

type failingLoad struct {
	*memoryLog
	fail atomic.Bool
}

func (l *failingLoad) LoadDay(day calendar.Day, fn func(account, endpoint string, used int64)) error {
	if l.fail.Load() {
		return errDisk
	}
	return l.memoryLog.LoadDay(day, fn)
}

// TestManyAbilitySets: sets that people make up take no numbers from the
// endpoints, however many there are.
func TestManyAbilitySets(t *testing.T) {
	t.Parallel()
	l := ledger.New(nil)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	name := func(i int) string { return string(rune('a'+i%26)) + " " + time.Duration(i).String() }
	const sets = 1<<16 + 10
	for i := range sets {
		l.PutToken(&ledger.Token{Hash: token.Hash{byte(i), byte(i >> 8), byte(i >> 16)}, Account: "acc_1", ID: "k", Abilities: name(i)})
	}
	for _, i := range []int{0, 63, 64, 65, 1000, sets - 1} {
		hash := token.Hash{byte(i), byte(i >> 8), byte(i >> 16)}
		if got, err := l.Grant(&hash, now); err != nil || got.Abilities != name(i) {
			t.Errorf("set %d: got %q, %v, want %q", i, got.Abilities, err, name(i))
		}
	}
	for i := range 300 {
		call := store.Call{Account: "acc_1", Endpoint: name(i), Day: today}
		wantTake(t, l, call, 1, 1, true)
		wantTake(t, l, call, 1, 1, false)
	}
}

// TestAllocations: what every call does allocates nothing.
func TestAllocations(t *testing.T) {
	l := ledger.New(nil)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	hash := token.Hash{1}
	l.PutToken(&ledger.Token{Hash: hash, Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert", ExpiresAt: now.Add(time.Hour)})
	call := callOf(1)
	none := []store.Limit{{Period: store.Day, Max: 0}}
	many := []store.Limit{
		{Period: store.Day, Max: store.Unlimited}, {Period: store.Month, Max: store.Unlimited},
		{Period: store.Month, Max: store.Unlimited, Endpoint: store.All}, {Period: store.Second, Max: 1e15},
	}
	rooms := make([]store.Room, len(many))
	tests := map[string]func(){
		"grant":   func() { _, _ = l.Grant(&hash, now) },
		"refusal": func() { _, _ = l.Grant(&token.Hash{2}, now) },
		"take":    func() { _, _ = l.Take(call, many, rooms) },
		"rooms":   func() { _ = l.Rooms(call, many, rooms) },
		"limit":   func() { _, _ = l.Take(call, none, rooms[:1]) },
	}
	for name, fn := range tests {
		if got := testing.AllocsPerRun(100, fn); got != 0 {
			t.Errorf("%s: %v allocations, want none", name, got)
		}
	}
}
