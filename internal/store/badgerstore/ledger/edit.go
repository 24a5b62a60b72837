package ledger

import (
	"slices"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Edit changes counters of one endpoint in one step.
type Edit struct {
	Endpoint string
	Day      calendar.Day
	// Holders are those of the counters on Day, and Totals those of the counters on
	// store.TotalDay, in the order of Change; few.
	Holders, Totals []string
	// Change changes the values of the counters, to zero or more.
	Change func(used []int64)
}

// Run changes the values of the counters, and calls set with each new value.
func (e *Edit) Run(used []int64, set func(day calendar.Day, holder string, used int64)) {
	before := slices.Clone(used)
	e.Change(used)
	e.each(func(i int, day calendar.Day, holder string) {
		if used[i] != before[i] {
			set(day, holder, used[i])
		}
	})
}

// each calls fn with each counter.
func (e *Edit) each(fn func(i int, day calendar.Day, holder string)) {
	for i, holder := range e.Holders {
		fn(i, e.Day, holder)
	}
	for i, holder := range e.Totals {
		fn(len(e.Holders)+i, store.TotalDay, holder)
	}
}

// Values returns what the counters have before the edit.
func (e *Edit) Values(value func(day calendar.Day, holder string) int64) []int64 {
	used := make([]int64, len(e.Holders)+len(e.Totals))
	e.each(func(i int, day calendar.Day, holder string) { used[i] = value(day, holder) })
	return used
}

// Edit makes edits, on the disk as well when it returns: those of days in
// memory with few commits, the others with one write. After an error, some can
// be made, each of them whole. Call it within Use. The ledger must have a log.
func (l *Ledger) Edit(edits ...Edit) error {
	for _, e := range edits {
		for _, day := range []calendar.Day{e.Day, store.TotalDay} { // both have to be in memory
			if len(e.Totals) > 0 {
				if err := l.load(day); err != nil {
					return err
				}
			}
		}
	}
	left, err := l.editLoaded(edits)
	if err != nil || len(left) == 0 {
		return err
	}
	if slices.ContainsFunc(left, func(e Edit) bool { return len(e.Totals) > 0 }) {
		return l.Edit(left...) // the day was dropped again
	}
	t := &l.counts
	t.loading.Lock()
	defer t.loading.Unlock()
	left, err = l.editLoaded(left) // days that were loaded since
	if err != nil || len(left) == 0 {
		return err
	}
	err = t.log.Edit(left)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range left {
		for _, holder := range e.Holders {
			if number, known := l.accounts.find(holder); known {
				t.forgetSums(number, e.Day)
			}
		}
	}
	return err
}

// editLoaded makes the edits of days in memory, and returns the others. It takes
// the turn of a leader. Its groups have no calls, so that those bear no cost.
func (l *Ledger) editLoaded(edits []Edit) (left []Edit, err error) {
	l.commits.wait()
	defer l.commits.pass()
	g := &l.commits.group
	g.Changes = 0
	for i := range edits {
		e := &edits[i]
		// They stay in memory until pass.
		d, total := l.counts.loaded(e.Day), l.counts.loaded(store.TotalDay)
		if d == nil || len(e.Totals) > 0 && total == nil {
			left = append(left, *e)
			continue
		}
		if len(g.Counts)+len(e.Holders)+len(e.Totals) > MaxGroup {
			if err := l.commitEdits(); err != nil {
				return nil, err
			}
		}
		l.decideEdit(d, total, e)
	}
	return left, l.commitEdits()
}

// decideEdit decides an edit. It sees the decisions before it.
func (l *Ledger) decideEdit(d, total *day, e *Edit) {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	g := &l.commits.group
	g.Changes++
	c := &change{call: store.Call{Endpoint: e.Endpoint}, endpoint: l.endpoints.index(e.Endpoint)}
	on := func(date calendar.Day) *day {
		if date == e.Day {
			return d
		}
		return total
	}
	used := e.Values(func(day calendar.Day, holder string) int64 {
		if number, known := l.accounts.find(holder); known {
			return on(day).find(number, c.endpoint).value(g)
		}
		return 0
	})
	e.Run(used, func(day calendar.Day, holder string, used int64) { l.set(c, on(day), l.accounts.number(holder), used) })
}

// commitEdits writes the group and applies it.
func (l *Ledger) commitEdits() error {
	l.commits.group.Sync = true
	err := l.append()
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	l.finish(nil, err)
	l.commits.group.Changes = 0
	return err
}
