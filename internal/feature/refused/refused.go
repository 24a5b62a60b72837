// Package refused counts refused calls, and adds the counts to the store.
package refused

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

const (
	// Every is how often refused calls are written to the store. The end of
	// the process without Close, as by kill -9, loses those since then.
	Every = 2 * time.Second

	// MaxRows is how many rows wait in memory. Further calls count without
	// their account.
	MaxRows = 10_000

	// closeTimeout bounds Close.
	closeTimeout = 5 * time.Second
)

// Options configure a Refused. All are required.
type Options struct {
	Engine book.Engine
	// Dropped gets the number of calls that will never be in the store.
	Dropped func(calls int64)
	Logger  *slog.Logger
}

// Refused adds refused calls to the store every few seconds. It is safe for
// concurrent use. If the store fails, the calls are written later. Some may then
// count twice, because the store may have added a part of them.
type Refused struct {
	options Options
	behind  *book.Behind
	day     atomic.Pointer[daySpace] // of the last call
}

// daySpace is the space of a day. A flood of refusals need not format the day.
type daySpace struct {
	day   calendar.Day
	space book.Space
}

// NewRefused returns a Refused. Close it before the store.
func NewRefused(o Options) *Refused {
	r := &Refused{options: o}
	r.behind = &book.Behind{
		Engine: o.Engine, Every: Every, Most: MaxRows, Failed: r.failed,
		Log: outage.New(o.Logger, slog.LevelWarn, "storing refused calls"),
	}
	return r
}

// Add counts refused calls. It does not wait for the store.
func (r *Refused) Add(row store.Refused) {
	calls := row.Calls
	row.Calls = 0
	of := r.day.Load()
	if of == nil || of.day != row.Day {
		of = &daySpace{row.Day, book.RefusedSpace(row.Day)}
		r.day.Store(of)
	}
	added := r.behind.Add(of.space, func(p book.Part, full bool) book.Part {
		rows, _ := p.(book.RefusedCalls)
		if rows == nil {
			rows = book.RefusedCalls{}
		}
		if _, found := rows[row]; !found && full && row.Account != "" {
			row.Account, row.Reason = "", ""
		}
		rows[row] += calls
		return rows
	})
	if !added {
		r.options.Dropped(calls)
	}
}

// failed keeps calls that the store did not add.
func (r *Refused) failed(pending, failed book.Part, closed bool) book.Part {
	if closed {
		dropped := int64(0)
		for _, calls := range failed.(book.RefusedCalls) {
			dropped += calls
		}
		r.options.Logger.Error("dropping refused calls that the store did not take", "calls", dropped)
		r.options.Dropped(dropped)
		return pending
	}
	rows, _ := pending.(book.RefusedCalls)
	if rows == nil {
		return failed
	}
	for row, calls := range failed.(book.RefusedCalls) {
		rows[row] += calls
	}
	return rows
}

// Flush writes all calls of Add that returned before to the store.
func (r *Refused) Flush(ctx context.Context) error { return r.behind.Flush(ctx, "") }

// Close writes what is left. Calls that are added later are dropped. It does
// not wait for a store that hangs.
func (r *Refused) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = r.Flush(ctx) // another try follows
	_ = r.behind.Close(ctx)
}
