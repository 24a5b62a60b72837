package ledger_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

var now = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// TestEditOfUnloadedDay: a day that is not in memory is edited in the log
// and not loaded.
func TestEditOfUnloadedDay(t *testing.T) {
	t.Parallel()
	log := newLog()
	l := ledger.New(log)
	wantTake(t, l, callOf(1), 9, 1, true)
	wantTake(t, l, callOf(2), 9, 1, true)
	l.RetainDays(func(calendar.Day) bool { return false })
	if err := reset(l); err != nil {
		t.Fatalf("edit: %v", err)
	}
	if days := l.Days(); len(days) > 0 {
		t.Errorf("in memory are %v", days)
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
	const rounds, callers, limit = 30, 4, 3
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

// TestEditWhileADayIsLoaded: an edit of a day that is being loaded changes the log
// and the memory alike.
func TestEditWhileADayIsLoaded(t *testing.T) {
	t.Parallel()
	log := &slowLoad{memoryLog: newLog()}
	log.counts[callOf(1)] = 5
	l := ledger.New(log)
	var editing sync.WaitGroup
	log.during = func() {
		editing.Go(func() {
			if err := reset(l); err != nil {
				t.Errorf("edit: %v", err)
			}
		})
		for range 100 {
			yield()
		}
	}
	if _, _, err := takeOne(l, callOf(2), 9); err != nil {
		t.Errorf("take: %v", err)
	}
	editing.Wait()
	wantTake(t, l, callOf(1), 0, 0, false)
	if got := log.count(callOf(1)); got != 0 {
		t.Errorf("the log has %d, want 0", got)
	}
}

// slowLoad calls during when a day was read, and before it is in memory.
type slowLoad struct {
	*memoryLog
	during func()
}

func (l *slowLoad) LoadDay(day calendar.Day, fn func(account, endpoint string, used int64)) error {
	err := l.memoryLog.LoadDay(day, fn)
	l.during()
	return err
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

// TestAllocations: what every call does allocates nothing.
func TestAllocations(t *testing.T) {
	l := ledger.New(nil)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	hash := token.Hash{1}
	l.PutToken(&ledger.Token{Hash: hash, Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert", ExpiresAt: now.Add(time.Hour)})
	call, everywhereCall := callOf(1), everywhereCall(1)
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
		"settle":  func() { _ = l.Settle(call, many, rooms, 0, false) },
		"places":  func() { _, _ = l.Take(everywhereCall, everywhere, rooms) },
		"refund":  func() { _ = l.Settle(everywhereCall, everywhere, rooms, 0, true) },
	}
	for name, fn := range tests {
		if got := testing.AllocsPerRun(100, fn); got != 0 {
			t.Errorf("%s: %v allocations, want none", name, got)
		}
	}
}
