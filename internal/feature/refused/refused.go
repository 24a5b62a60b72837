// Package refused sums up refused calls, and adds the sums to the store.
package refused

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	// Every is how often refused calls are written to the store. The end of
	// the process without Close, as by kill -9, loses those since then.
	Every = 2 * time.Second

	// MaxRows is how many rows with an account wait in memory. Further calls
	// count without their account.
	MaxRows = 10_000

	// maxBatch is how many rows are written in one step.
	maxBatch = 1000

	// closeTimeout bounds Close.
	closeTimeout = 5 * time.Second

	// writeTimeout bounds a write in the background.
	writeTimeout = 10 * time.Second
)

// Store is what Refused uses of a store.
type Store interface {
	AddRefused(ctx context.Context, rows []store.Refused) error
}

// Options configure a Refused. All are required.
type Options struct {
	Store Store
	// Dropped gets the number of calls that will never be in the store.
	Dropped func(calls int64)
	Logger  *slog.Logger
}

// Refused sums up refused calls in memory, and adds them to the store every
// few seconds. It is safe for concurrent use.
type Refused struct {
	options Options
	outage  *outage.Log

	mu       sync.Mutex
	calls    map[store.Refused]int64 // by a row without Calls
	accounts int                     // rows with an account
	timer    *time.Timer             // of the next write; nil if there is none
	closed   bool

	writing sync.Mutex // held to write
}

// NewRefused returns a Refused. Close it before the store.
func NewRefused(o Options) *Refused {
	return &Refused{
		options: o, outage: outage.New(o.Logger, slog.LevelWarn, "storing refused calls"),
		calls: map[store.Refused]int64{},
	}
}

// Add counts refused calls. It does not wait for the store.
func (r *Refused) Add(row store.Refused) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.options.Dropped(row.Calls)
		return
	}
	r.add(row)
}

// add counts a row, which is written later. The caller holds mu. There is one
// row without an account for each day, endpoint and code.
func (r *Refused) add(row store.Refused) {
	calls := row.Calls
	row.Calls = 0
	_, found := r.calls[row]
	switch {
	case found || row.Account == "":
	case r.accounts < MaxRows:
		r.accounts++
	default:
		row.Account, row.Reason = "", ""
	}
	r.calls[row] += calls
	if r.timer == nil && !r.closed {
		r.timer = time.AfterFunc(Every, r.write)
	}
}

// write flushes in the background.
func (r *Refused) write() {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if err := r.Flush(ctx); err != nil {
		r.outage.Failed(slog.Any("error", err))
		return
	}
	r.outage.Worked()
}

// Flush writes all calls of Add that returned before to the store. If the
// store fails, the calls are kept and written later. Some may then count
// twice, because the store may have added a part of them.
func (r *Refused) Flush(ctx context.Context) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	rows := sorted(r.take())
	for batch := range slices.Chunk(rows, maxBatch) {
		if err := r.options.Store.AddRefused(ctx, batch); err != nil {
			r.restore(rows)
			return err
		}
		rows = rows[len(batch):]
	}
	return nil
}

// take returns the calls, and removes them.
func (r *Refused) take() map[store.Refused]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	calls := r.calls
	r.calls, r.accounts = map[store.Refused]int64{}, 0
	return calls
}

// sorted returns rows in their order.
func sorted(calls map[store.Refused]int64) []store.Refused {
	rows := make([]store.Refused, 0, len(calls))
	for row, n := range calls {
		row.Calls = n
		rows = append(rows, row)
	}
	slices.SortFunc(rows, store.Refused.Compare)
	return rows
}

// restore keeps rows that the store did not add.
func (r *Refused) restore(rows []store.Refused) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range rows {
		r.add(row)
	}
}

// Close writes what is left. Calls that are added later are dropped. It does
// not wait for a store that hangs.
func (r *Refused) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	written := make(chan struct{})
	go func() {
		r.write()
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(closeTimeout):
	}
	dropped := int64(0)
	for _, calls := range r.take() {
		dropped += calls
	}
	if dropped > 0 {
		r.options.Logger.Error("dropping refused calls that the store did not take", "calls", dropped)
	}
	r.options.Dropped(dropped)
}
