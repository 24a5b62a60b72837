package ledger

import (
	"slices"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Edit changes counters of one endpoint on one day in one step.
type Edit struct {
	Endpoint string
	Day      calendar.Day
	Holders  []string // of the counters, in the order of Change; few
	// Change changes the values of the counters, to zero or more.
	Change func(used []int64)
}

// Run changes the values of the counters, and calls set with each new value.
func (e *Edit) Run(used []int64, set func(holder string, used int64)) {
	before := slices.Clone(used)
	e.Change(used)
	for i, holder := range e.Holders {
		if used[i] != before[i] {
			set(holder, used[i])
		}
	}
}

// Edit makes edits, on the disk as well when it returns: those of days in
// memory with few commits, the others with one write. After an error, some can
// be made, each of them whole. Call it within Use. The ledger must have a log.
func (l *Ledger) Edit(edits ...Edit) error {
	left, err := l.editLoaded(edits)
	if err != nil || len(left) == 0 {
		return err
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
		d := l.counts.loaded(e.Day) // it stays in memory until pass
		if d == nil {
			left = append(left, *e)
			continue
		}
		if len(g.Counts)+len(e.Holders) > MaxGroup {
			if err := l.commitEdits(); err != nil {
				return nil, err
			}
		}
		l.decideEdit(d, e)
	}
	return left, l.commitEdits()
}

// decideEdit decides an edit. It sees the decisions before it.
func (l *Ledger) decideEdit(d *day, e *Edit) {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	g := &l.commits.group
	g.Changes++
	c := &change{call: store.Call{Endpoint: e.Endpoint}, endpoint: l.endpoints.index(e.Endpoint), day: d}
	used := make([]int64, len(e.Holders))
	for i, holder := range e.Holders {
		if number, known := l.accounts.find(holder); known {
			used[i] = d.find(number, c.endpoint).value(g)
		}
	}
	e.Run(used, func(holder string, used int64) { l.set(c, l.accounts.number(holder), used) })
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
