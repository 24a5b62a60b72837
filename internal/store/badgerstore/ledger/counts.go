package ledger

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// counts holds the counters of the days that were asked for. A day is read
// from the log once, at its first call. Because every day has counters of
// its own, a clock that is set back over midnight finds the counts of the
// day before.
//
// A month has no counters: it is the sum of its days. Those that are in
// memory are added up for each call; the sum of the others is read from
// the log once for each account.
type counts struct {
	log Log

	// loading is held while days are loaded, dropped or edited in the log, and for
	// reading while sums of a month are loaded. It is locked before mu.
	loading sync.RWMutex
	mu      sync.Mutex // guards what follows
	days    []*day
	months  []*month
	paces   paces
}

// day is the counters of one day.
type day struct {
	table

	date    calendar.Day
	dropped bool // no longer in counts.days
}

// month is the sums of the days of one month that are not in memory, for
// the holders that were asked for.
type month struct {
	table

	begins, ends calendar.Day
}

// day is loaded with mu held.
func (t *counts) day(date calendar.Day) *day {
	for _, d := range t.days {
		if d.date == date {
			return d
		}
	}
	return nil
}

// month returns the sums of the month of a date, if they have a holder.
func (t *counts) month(date calendar.Day, holder uint32) *month {
	for _, m := range t.months {
		if first := m.first.get(holder); m.covers(date) && first != nil && first.read {
			return m
		}
	}
	return nil
}

func (m *month) covers(date calendar.Day) bool { return m.begins <= date && date <= m.ends }

// load reads a day into memory unless it is there.
func (l *Ledger) load(date calendar.Day) error {
	t := &l.counts
	t.loading.Lock()
	defer t.loading.Unlock()
	if l.closed.Load() {
		return store.ErrClosed
	}
	if t.loaded(date) != nil {
		return nil
	}
	d, err := l.readDay(date)
	if err != nil {
		return fmt.Errorf("%w: loading the counts of %s: %w", store.ErrUnavailable, date, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.days = append(t.days, d)
	if len(d.first) > 0 {
		t.forgetMonth(date) // its sums include this day
	}
	return nil
}

// readDay reads the counters of a day from the log.
func (l *Ledger) readDay(date calendar.Day) (*day, error) {
	d := &day{date: date}
	if l.counts.log == nil {
		return d, nil
	}
	var mu sync.Mutex // LoadDay calls from several goroutines
	err := l.counts.log.LoadDay(date, func(holder, endpoint string, used int64) {
		number, name := l.accounts.number(holder), l.endpoints.index(endpoint)
		mu.Lock()
		defer mu.Unlock()
		d.counter(number, name).used = used
	})
	return d, err
}

// loaded returns a day that is in memory, else nil.
func (t *counts) loaded(date calendar.Day) *day {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.day(date)
}

// forgetMonth makes the sums of a month be read again.
func (t *counts) forgetMonth(date calendar.Day) {
	t.months = slices.DeleteFunc(t.months, func(m *month) bool { return m.covers(date) })
}

// forgetSums makes the sums of a month be read again for one holder. An edit
// of one account does not make all others wait for their sums.
func (t *counts) forgetSums(holder uint32, date calendar.Day) {
	if m := t.month(date, holder); m != nil {
		m.first.get(holder).read = false
		m.counters(holder, func(_ uint32, c *counter) { c.used = 0 })
	}
}

// loadMonth reads what a holder has used on the days of a month that are not
// in memory.
func (l *Ledger) loadMonth(holder uint32, date calendar.Day) error {
	t := &l.counts
	t.loading.RLock()
	defer t.loading.RUnlock()
	if l.closed.Load() {
		return store.ErrClosed
	}
	first, last := date.Month()
	missing := l.missingDays(first, last)
	used := map[string]int64{}
	if t.log != nil {
		err := t.log.LoadHolder(l.accounts.at(holder).id, missing, func(endpoint string, n int64) {
			used[endpoint] = Sum(used[endpoint], n)
		})
		if err != nil {
			return fmt.Errorf("%w: loading the counts of a month: %w", store.ErrUnavailable, err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.month(date, holder) != nil {
		return nil
	}
	i := slices.IndexFunc(t.months, func(m *month) bool { return m.begins == first })
	if i < 0 {
		i = len(t.months)
		t.months = append(t.months, &month{begins: first, ends: last})
	}
	t.months[i].table.first.make(holder).read = true
	for endpoint, n := range used {
		t.months[i].counter(holder, l.endpoints.index(endpoint)).used = n
	}
	return nil
}

// missingDays returns the days from first to last that are not in memory.
func (l *Ledger) missingDays(first, last calendar.Day) (missing []calendar.Day) {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	for date := first; date <= last; date++ {
		if l.counts.day(date) == nil {
			missing = append(missing, date)
		}
	}
	return missing
}

// RetainDays drops all days from memory but those for which keep returns
// true. It waits for the commit under way: its counts are not in the log
// yet. Without a log no day is dropped, as it could not be loaded again.
func (l *Ledger) RetainDays(keep func(calendar.Day) bool) {
	t := &l.counts
	if t.log == nil {
		return
	}
	t.loading.Lock()
	defer t.loading.Unlock()
	l.commits.wait()
	defer l.commits.pass()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.days = slices.DeleteFunc(t.days, func(d *day) bool {
		d.dropped = !keep(d.date)
		if d.dropped {
			t.addToMonth(d)
		}
		return d.dropped
	})
	t.months = slices.DeleteFunc(t.months, func(m *month) bool {
		return !slices.ContainsFunc(t.days, func(d *day) bool { return m.covers(d.date) })
	})
}

// addToMonth adds the counts of a day that is dropped to the sums of its
// month.
func (t *counts) addToMonth(d *day) {
	for _, m := range t.months {
		if !m.covers(d.date) {
			continue
		}
		d.each(func(holder, endpoint uint32, c *counter) {
			if first := m.first.get(holder); first != nil && first.read {
				total := m.counter(holder, endpoint)
				total.used = Sum(total.used, c.used)
			}
		})
	}
}

// Count is the value of a counter.
type Count struct {
	Holder, Endpoint string
	Day              calendar.Day
	Used             int64

	counter *counter // in a group
}

// Moved returns the counters of the days in memory that have changed since
// the day was loaded. It waits for the commit under way.
func (l *Ledger) Moved() (moved []Count) {
	l.commits.wait()
	defer l.commits.pass()
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	for _, d := range l.counts.days {
		d.each(func(holder, endpoint uint32, c *counter) {
			if c.moved {
				moved = append(moved, Count{Holder: l.accounts.at(holder).id, Endpoint: l.endpoints.at(endpoint), Day: d.date, Used: c.used})
			}
		})
	}
	return moved
}

// Counts calls fn with the counts above zero of some holders on a day, all of
// one instant: an edit is included or not. A call that is being committed is not
// included. It returns false if the day is not in memory and only the log knows.
func (l *Ledger) Counts(date calendar.Day, holders []string, fn func(holder int, c store.Count)) (loaded bool) {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	d := l.counts.day(date)
	if d == nil {
		return false
	}
	for i, holder := range holders {
		number, known := l.accounts.find(holder)
		if !known {
			continue
		}
		d.counters(number, func(endpoint uint32, c *counter) {
			if c.used > 0 {
				fn(i, store.Count{Day: date, Endpoint: l.endpoints.at(endpoint), Used: c.used})
			}
		})
	}
	return true
}

// Days returns the days that are in memory.
func (l *Ledger) Days() (list []calendar.Day) {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	for _, d := range l.counts.days {
		list = append(list, d.date)
	}
	return list
}

// Sum adds what was used. It does not overflow.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
