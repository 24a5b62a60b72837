package logintest

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// Cells is a memory whose clock the test moves. It deletes cells at the
// instant at which they expire. The zero Cells is empty.
type Cells struct {
	mu    sync.Mutex
	now   time.Time
	cells map[login.CellKey]stored
	err   error
	reads int
	swaps int
}

type stored struct {
	value   []byte
	expires time.Time
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

// Put stores a value that expires in a year.
func (c *Cells) Put(key login.CellKey, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(key, value, c.now.AddDate(1, 0, 0))
}

// Values returns the values of all cells that have not expired.
func (c *Cells) Values() map[login.CellKey][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := make(map[login.CellKey][]byte)
	for key := range c.cells {
		if value := c.get(key); value != nil {
			values[key] = value
		}
	}
	return values
}

// Calls returns how often Read and Swap were called.
func (c *Cells) Calls() (reads, swaps int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads, c.swaps
}

// Read implements login.Cells.
func (c *Cells) Read(ctx context.Context, key login.CellKey) (login.Cell, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	if err := c.broken(ctx); err != nil {
		return login.Cell{}, err
	}
	return login.Cell{Value: c.get(key), Now: c.now}, nil
}

// Swap implements login.Cells.
func (c *Cells) Swap(ctx context.Context, key login.CellKey, change login.Change) (login.Cell, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swaps++
	if err := c.broken(ctx); err != nil {
		return login.Cell{}, false, err
	}
	if !bytes.Equal(c.get(key), change.Old) || c.now.After(change.Until) {
		return login.Cell{Value: c.get(key), Now: c.now}, false, nil
	}
	c.put(key, change.New, change.Expires)
	return login.Cell{Value: c.get(key), Now: c.now}, true, nil
}

func (c *Cells) broken(ctx context.Context) error {
	if c.err != nil {
		return c.err
	}
	return ctx.Err()
}

func (c *Cells) get(key login.CellKey) []byte {
	if one, ok := c.cells[key]; ok && one.expires.After(c.now) {
		return bytes.Clone(one.value)
	}
	return nil
}

func (c *Cells) put(key login.CellKey, value []byte, expires time.Time) {
	if c.cells == nil {
		c.cells = make(map[login.CellKey]stored)
	}
	delete(c.cells, key)
	if len(value) > 0 {
		c.cells[key] = stored{bytes.Clone(value), expires}
	}
}

// Interface guard.
var _ login.Cells = (*Cells)(nil)
