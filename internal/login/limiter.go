package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// contendedWait is the wait of a client if too many attempts change a cell at
// the same instant.
const contendedWait = time.Second

// Limiter limits login attempts per client and per account. It is safe for
// concurrent use, and outlives configurations.
type Limiter struct {
	cells Cells
	turns *turns // of AddressCall
	// The rest is for cells on a server.
	timeout time.Duration // zero for none
	outages *outage.Log
	spare   *Limiter // decides while the cells do not answer
}

// New returns a Limiter over cells in memory.
func New(cells Cells) *Limiter {
	return &Limiter{cells: cells, turns: &turns{of: map[CellKey]*turn{}}}
}

// NewShared returns a Limiter over the cells of a server. An attempt or
// outcome waits at most timeout for the cells. While they do not answer, the
// gate decides alone, with cells in its memory. outages logs when they do not
// answer, and when they do again.
func NewShared(cells Cells, timeout time.Duration, outages *outage.Log) *Limiter {
	l := New(cells)
	l.timeout, l.outages, l.spare = timeout, outages, New(NewMemory(time.Now, nil))
	return l
}

// within limits the time of an attempt or outcome. A client that disconnects
// does not interrupt it: only one of the cells could have the attempt then.
func (l *Limiter) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if l.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, l.timeout)
}

// Reserve admits or refuses an attempt. It counts and saves an admitted one as
// failed before it returns, so that parallel guesses count. It returns one of
// these:
//
//   - an Attempt, whose outcome the caller reports.
//   - no Attempt, and a wait. Nothing was counted. A client that waits that
//     long is admitted, unless other attempts come first.
//   - an error, if ctx is done, the limits are invalid (ErrLimits) or the
//     cells cannot be saved. Nothing is counted. If the attempt was saved
//     despite the error, it counts as failed after a restart.
func (l *Limiter) Reserve(ctx context.Context, limits Limits, client Client, account Account) (*Attempt, time.Duration, error) {
	limits, err := limits.resolve()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, 0, fmt.Errorf("reserving login attempt: %w", err)
	}
	a := &Attempt{limiter: l, limits: limits, fingerprint: fingerprintOf(client, account), keys: []CellKey{client.cellKey()}}
	if account != (Account{}) {
		a.keys = append(a.keys, account.cellKey())
	}
	wait, err := a.reserve(ctx)
	switch {
	case errors.Is(err, errContended):
		return nil, contendedWait, nil
	case err != nil && (l.spare == nil || ctx.Err() != nil):
		return nil, 0, err
	case err != nil:
		l.outages.Failed(slog.Any("error", err))
		if a.contended {
			// The cells answered during this attempt. The allowance of the spare
			// limiter is for outages only: an attacker must not get it by many
			// attempts at the same instant.
			return nil, contendedWait, nil
		}
		return l.spare.Reserve(ctx, limits, client, account)
	case l.spare != nil:
		l.outages.Worked()
	}
	if wait > 0 {
		return nil, wait, nil
	}
	return a, 0, nil
}
