package login

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// classMemory is how much memory each class of cells has at most, in bytes.
var classMemory = [classes]int64{ClientClass: 400 << 20, FreeClass: 150 << 20, WaitingClass: 450 << 20, KnownClass: 3200 << 20, AddressClass: 300 << 20}

// A process that may use largeMemory gets the most memory for cells, and one
// that may use less gets the same part of it. All together, with those of
// Guesses, are 59 % of what the process may use. It never gets less than for
// smallMemory: without cells, nothing is limited. A process of 32 bits may use
// 1 GiB: it has 2 to 4 GiB of addresses.
const (
	largeMemory = 8 << 30
	smallMemory = 64 << 20
)

// fitting returns the bounds for the memory that the process may use: GOMEMLIMIT
// if it is set. Otherwise Caddy sets the limit before it loads a configuration,
// from the cgroup or the machine.
func fitting(most [classes]int64) (bounds [classes]int) {
	limit := min(largeMemory, math.MaxInt/2+1, max(smallMemory, debug.SetMemoryLimit(-1)))
	for class := range most {
		bounds[class] = int(float64(most[class]) * float64(limit) / largeMemory)
	}
	return bounds
}

// Memory has cells in the memory of one process. It is safe for concurrent use,
// and outlives configurations.
type Memory struct {
	now     func() time.Time
	journal Journal    // or nil
	saving  sync.Mutex // while a batch is saved

	mu     sync.Mutex // guards the following
	rows   rows
	open   *batch // collects keys until it is saved
	behind behind
}

// batch is a group commit: the first caller saves the cells of all callers that
// join while the batch before it is saved. The cells are read when it is their
// turn, so that no batch overwrites newer ones.
type batch struct {
	keys []CellKey
	once sync.Once
	err  error
}

// NewMemory returns an empty Memory, whose bounds fit the memory that the process
// may use then. now is its clock. If the journal is nil,
// the cells end with the process.
func NewMemory(now func() time.Time, journal Journal) *Memory {
	return &Memory{now: now, journal: journal, rows: newRows(fitting(classMemory)), open: new(batch)}
}

// Restore loads the cells of the journal. Call it once, before the first
// Read. Attempts that were in flight when the process ended count as failed.
// After an error, do not use the Memory: with a part of the cells it would give
// attackers their allowance back. An invalid row is an error that wraps
// ErrCorrupt.
func (m *Memory) Restore(ctx context.Context) error {
	var restored []*row
	err := m.journal.LoadAttempts(ctx, func(key, value []byte) error {
		one, err := decodeRow(key, value)
		restored = append(restored, &one)
		return err
	})
	if err != nil {
		return fmt.Errorf("restoring login attempts: %w", err)
	}
	// The journal returns rows in no useful order.
	slices.SortFunc(restored, func(a, b *row) int { return cmp.Compare(a.expires, b.expires) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows.now = nanoseconds(m.now())
	for _, one := range restored {
		one.kept.before = true
		m.rows.put(one)
	}
	m.trim()
	return nil
}

// Read implements Cells.
func (m *Memory) Read(_ context.Context, keys ...CellKey) ([]Cell, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cells := make([]Cell, len(keys))
	for i, key := range keys {
		cells[i] = m.rows.get(key, m.now())
	}
	return cells, nil
}

// Swap implements Cells.
func (m *Memory) Swap(_ context.Context, key CellKey, old Cell, change Change) (cell Cell, swapped bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cell = m.rows.get(key, m.now()); !bytes.Equal(cell.Value, old.Value) {
		return cell, false, nil
	}
	if change.Class == AddressClass {
		m.changeAddress(key, change)
	} else {
		m.rows.change(key, change)
	}
	cell.Value = change.Value
	return cell, true, nil
}

// Save implements Cells. After an error, any of the cells may have been saved.
// ctx does not interrupt it, because a batch has attempts of other callers. Only
// what was saved evicts cells: otherwise attempts would cost nothing while the
// journal is down.
func (m *Memory) Save(ctx context.Context, keys ...CellKey) error {
	if m.journal != nil {
		m.mu.Lock()
		b := m.open
		b.keys = append(b.keys, keys...)
		m.mu.Unlock()
		b.once.Do(func() { m.commit(context.WithoutCancel(ctx), b) })
		if b.err != nil {
			return b.err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trim()
	return nil
}

// trim makes room. The next batch deletes evicted cells from the journal. If
// that fails, they come back at the next start.
func (m *Memory) trim() {
	if evicted := m.rows.trim(); m.journal != nil {
		m.open.keys = append(m.open.keys, evicted...)
	}
}

// errJournalPanic is the error of a batch whose Save panics.
var errJournalPanic = errors.New("journal panicked")

func (m *Memory) commit(ctx context.Context, b *batch) {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	m.open = new(batch)
	saved := make([]Row, 0, len(b.keys))
	read := make(map[CellKey]bool, len(b.keys))
	for _, key := range b.keys {
		if !read[key] {
			read[key] = true
			saved = append(saved, m.rows.saved(key))
		}
	}
	m.mu.Unlock()
	b.err = errJournalPanic
	b.err = m.journal.Save(ctx, saved)
}

// Interface guard.
var _ Cells = (*Memory)(nil)
