package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
)

var errDisk = errors.New("disk failed")

// memoryLog keeps in memory what was appended to it, so that a ledger can
// crash and come back.
type memoryLog struct {
	mu     sync.Mutex
	counts map[store.Call]int64
	groups []group

	// before is called with the number of each group, from 0, before it
	// is kept, and fails it with an error.
	before func(group int) error
}

// yield lets others run in the middle of the log's work, as a disk does.
func yield() {
	for range 20 {
		runtime.Gosched()
	}
}

// group is what a test may want to know of a ledger.Group.
type group struct {
	counts  map[store.Call]int64
	entries int
	sync    bool
}

func newLog() *memoryLog {
	return &memoryLog{counts: map[store.Call]int64{}, before: func(int) error { return nil }}
}

func (l *memoryLog) Append(g *ledger.Group) error {
	seen := group{counts: map[store.Call]int64{}, entries: len(g.Counts), sync: g.Sync}
	for _, c := range g.Counts {
		seen.counts[store.Call{Account: c.Holder, Endpoint: c.Endpoint, Day: c.Day}] = c.Used
	}
	l.mu.Lock()
	number := len(l.groups)
	l.groups = append(l.groups, seen)
	l.mu.Unlock()
	if err := l.before(number); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.counts, seen.counts)
	return nil
}

// Edit is a group of its own, to the tests.
func (l *memoryLog) Edit(edits []ledger.Edit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.before(len(l.groups)); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	for _, e := range edits {
		counter := func(day calendar.Day, holder string) store.Call {
			return store.Call{Account: holder, Endpoint: e.Endpoint, Day: day}
		}
		used := e.Values(func(day calendar.Day, holder string) int64 { return l.counts[counter(day, holder)] })
		e.Run(used, func(day calendar.Day, holder string, used int64) { l.counts[counter(day, holder)] = used })
	}
	return nil
}

func (l *memoryLog) LoadDay(day calendar.Day, fn func(holder, endpoint string, used int64)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for call, used := range l.counts {
		if call.Day == day {
			fn(call.Account, call.Endpoint, used)
		}
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	yield()
	return nil
}

func (l *memoryLog) LoadHolder(holder string, days []calendar.Day, fn func(endpoint string, used int64)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for call, used := range l.counts {
		if call.Account == holder && slices.Contains(days, call.Day) {
			fn(call.Endpoint, used)
		}
	}
	return nil
}

func (l *memoryLog) count(call store.Call) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[call]
}

func (l *memoryLog) seen() []group {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.groups)
}
