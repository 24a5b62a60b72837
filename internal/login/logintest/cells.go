package logintest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

// Cells are the cells of a server: its clock and its failures are those of the
// test.
type Cells struct {
	*login.Memory

	mu    sync.Mutex
	now   time.Time
	err   error
	keys  map[login.CellKey]bool // of all changes
	reads int
	swaps int
}

// NewCells returns cells that are empty.
func NewCells() *Cells {
	c := &Cells{keys: make(map[login.CellKey]bool)}
	c.Memory = login.NewMemory(func() time.Time { return c.now }, nil)
	return c
}

// SetClock sets the time of the server.
func (c *Cells) SetClock(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Fail makes all calls fail with err, until Fail is called with nil.
func (c *Cells) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// Values returns the values of all cells that have not expired.
func (c *Cells) Values() map[login.CellKey][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := make(map[login.CellKey][]byte)
	keys := slices.Collect(maps.Keys(c.keys))
	cells, _ := c.Memory.Read(context.Background(), keys...) // it never fails
	for i, key := range keys {
		if len(cells[i].Value) > 0 {
			values[key] = cells[i].Value
		}
	}
	return values
}

// Calls returns how many cells were read and how many changed.
func (c *Cells) Calls() (reads, swaps int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads, c.swaps
}

// Read implements login.Cells.
func (c *Cells) Read(ctx context.Context, keys ...login.CellKey) ([]login.Cell, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads += len(keys)
	if c.err != nil {
		return nil, c.err
	}
	return c.Memory.Read(ctx, keys...)
}

// Swap implements login.Cells.
func (c *Cells) Swap(ctx context.Context, key login.CellKey, old login.Cell, change login.Change) (login.Cell, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swaps++
	if c.err != nil {
		return login.Cell{}, false, c.err
	}
	c.keys[key] = true
	return c.Memory.Swap(ctx, key, old, change)
}

// Clock shows cells at the time of a test. None of them expires, so that the
// test can set the clock back.
type Clock struct {
	login.Cells
	now time.Time
}

// SetClock sets the time.
func (c *Clock) SetClock(now time.Time) { c.now = now }

// Read implements login.Cells.
func (c *Clock) Read(ctx context.Context, keys ...login.CellKey) ([]login.Cell, error) {
	cells, err := c.Cells.Read(ctx, keys...)
	for i := range cells {
		cells[i].Now = c.now
	}
	return cells, err
}

// Swap implements login.Cells.
func (c *Clock) Swap(ctx context.Context, key login.CellKey, old login.Cell, change login.Change) (login.Cell, bool, error) {
	change.Expires = change.Expires.AddDate(50, 0, 0)
	cell, swapped, err := c.Cells.Swap(ctx, key, old, change)
	cell.Now = c.now
	return cell, swapped, err
}

// Interface guards.
var (
	_ login.Cells = (*Cells)(nil)
	_ login.Cells = (*Clock)(nil)
)
