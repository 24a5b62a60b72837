package ledger

import (
	"fmt"
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
// A week or a month has no counters: it is the sum of its days. Those that are in
// memory are added up for each call; the sum of the others is read from the log
// once for each account. A total has counters of its own: those of
// store.TotalDay.
type counts struct {
	log Log

	// loading is held while days are loaded, dropped or edited in the log, and for
	// reading while sums are loaded. It is locked before mu.
	loading sync.RWMutex
	mu      sync.Mutex // guards what follows
	days    []*day
	weeks   sums
	months  sums
	paces   paces
}

// day is the counters of one day.
type day struct {
	table

	date    calendar.Day
	dropped bool // no longer in counts.days
}

// sums has what holders used on the days of their week or month that are not in
// memory.
type sums struct {
	table

	windows pages[window] // by holder
}

// window is the days of a holder's sums, if they were read from the log.
type window struct {
	calendar.Window

	read bool
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

// sums returns the sums of the weeks or the months.
func (t *counts) sums(period store.Period) *sums {
	if period == store.Week {
		return &t.weeks
	}
	return &t.months
}

// has tells whether there are the sums of a holder on some days.
func (s *sums) has(holder uint32, days calendar.Window) bool {
	w := s.windows.get(holder)
	return w != nil && w.read && w.Window == days
}

// shift adds the counts of a day to sums that have it, or takes them away.
func (t *counts) shift(d *day, by func(sum, used int64) int64) {
	d.each(func(holder, endpoint uint32, c *counter) {
		for _, s := range []*sums{&t.weeks, &t.months} {
			if w := s.windows.get(holder); w != nil && w.read && w.Has(d.date) {
				total := s.counter(holder, endpoint)
				total.used = by(total.used, c.used)
			}
		}
	})
}

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
	t.shift(d, func(sum, used int64) int64 { return max(0, sum-used) })
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

// forgetSums makes the sums of a holder that have a day be read again.
func (t *counts) forgetSums(holder uint32, date calendar.Day) {
	for _, s := range []*sums{&t.weeks, &t.months} {
		if w := s.windows.get(holder); w != nil && w.Has(date) {
			w.read = false
		}
	}
}

// loadSums reads what a holder has used on those days of a week or a month that
// are not in memory.
func (l *Ledger) loadSums(holder uint32, period store.Period, days calendar.Window) error {
	t := &l.counts
	t.loading.RLock()
	defer t.loading.RUnlock()
	if l.closed.Load() {
		return store.ErrClosed
	}
	used := map[string]int64{}
	if t.log != nil {
		err := t.log.LoadHolder(l.accounts.at(holder).id, l.missingDays(days), func(endpoint string, n int64) {
			used[endpoint] = store.Sum(used[endpoint], n)
		})
		if err != nil {
			return fmt.Errorf("%w: loading the counts of a %s: %w", store.ErrUnavailable, period, err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sums(period)
	if s.has(holder, days) {
		return nil
	}
	s.counters(holder, func(_ uint32, c *counter) { c.used = 0 })
	*s.windows.make(holder) = window{days, true}
	for endpoint, n := range used {
		s.counter(holder, l.endpoints.index(endpoint)).used = n
	}
	return nil
}

// missingDays returns the days of a window that are not in memory.
func (l *Ledger) missingDays(days calendar.Window) (missing []calendar.Day) {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	for date := days.First; date <= days.Last; date++ {
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
			t.shift(d, store.Sum)
		}
		return d.dropped
	})
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
