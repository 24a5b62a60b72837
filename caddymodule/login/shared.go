package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
)

const (
	// maxTries is how often a change is tried if other attempts change the
	// cell first. Each failed try needs another attempt at the same instant.
	maxTries = 32

	// patience is how many tries are made without a pause. Later ones pause
	// for a random time up to minPause, which doubles up to maxPause.
	// Otherwise hundreds of attempts would mostly make each other fail.
	patience = 2
	minPause = time.Millisecond
	maxPause = 64 * time.Millisecond

	// contendedWait is the wait of a client after maxTries.
	contendedWait = time.Second
)

var errContended = errors.New("too many concurrent attempts")

// Shared limits the login attempts of several gates together. It is safe for
// concurrent use. It outlives configurations.
type Shared struct {
	cells   Cells
	timeout time.Duration
	outages *outage.Log
	local   *Local // decides while the cells do not answer
}

// NewShared returns a Shared. An attempt or outcome waits at most timeout
// for the cells. outages logs when they do not answer, and when they do
// again.
func NewShared(cells Cells, timeout time.Duration, outages *outage.Log) *Shared {
	return &Shared{cells: cells, timeout: timeout, outages: outages, local: NewLocal(nil)}
}

// Reserve is as that of Local, and counts an admitted attempt before it returns.
// now decides only while the cells do not answer; otherwise the server's time
// does.
func (s *Shared) Reserve(
	ctx context.Context, now time.Time, limits Limits, client Client, account Account,
) (Attempt, time.Duration, error) {
	limits, err := begin(ctx, limits)
	if err != nil {
		return nil, 0, err
	}
	r := &sharedReservation{shared: s}
	r.limits, r.client, r.account, r.fingerprint = limits, client, account, fingerprintOf(client, account)
	wait, err := r.reserve(ctx)
	switch {
	case err == nil:
		s.outages.Worked()
		if wait > 0 {
			return nil, wait, nil
		}
		return r, 0, nil
	case ctx.Err() != nil:
		return nil, 0, fmt.Errorf("reserving login attempt: %w", err)
	case !errors.Is(err, errContended):
		s.outages.Failed(slog.Any("error", err))
	}
	if r.lost {
		// The cells answered during this attempt. The allowance of the Local
		// is for outages only: an attacker must not get it by many attempts
		// at the same instant.
		return nil, contendedWait, nil
	}
	return s.local.Reserve(ctx, now, limits, client, account)
}

// view is a cell as the server just showed it.
type view struct {
	Cell
	until time.Time // at the latest, the server's time at the deadline
}

// viewOf returns the view of an answer that has just arrived. The server read
// its clock before that, so the time left is added to a time in the past.
func viewOf(ctx context.Context, cell Cell) view {
	deadline, _ := ctx.Deadline()
	return view{cell, cell.Now.Add(time.Until(deadline))}
}

// change replaces the cell of this view.
func (v view) change(value []byte, expires int64) Change {
	return Change{Old: v.Value, New: value, Until: v.until, Expires: time.Unix(0, expires)}
}

func (s *Shared) read(ctx context.Context, key CellKey) (view, error) {
	cell, err := s.cells.Read(ctx, key)
	if err != nil {
		return view{}, fmt.Errorf("reading login attempts: %w", err)
	}
	return viewOf(ctx, cell), nil
}

// verdict is what a rule says by a view of a cell.
type verdict struct {
	wait   time.Duration // 0 if the attempt is admitted
	at     int64         // the instant at which it counts
	known  bool          // whether the client is known
	write  bool          // whether change is to be written
	change Change
}

// rule judges by a view of a cell.
type rule func(view) (verdict, error)

// apply writes what the rule says. If another attempt has changed the cell
// first, the rule judges again, and lost is true.
func (s *Shared) apply(ctx context.Context, key CellKey, seen view, judge rule) (_ verdict, lost bool, _ error) {
	for tries := range maxTries {
		said, err := judge(seen)
		if err != nil || !said.write {
			return said, lost, err
		}
		cell, swapped, err := s.cells.Swap(ctx, key, said.change)
		if err != nil {
			return verdict{}, lost, fmt.Errorf("writing login attempts: %w", err)
		}
		if swapped {
			return said, lost, nil
		}
		lost = true
		seen = viewOf(ctx, cell)
		if tries < patience {
			continue
		}
		if seen, err = s.pause(ctx, key, tries-patience); err != nil {
			return verdict{}, lost, err
		}
	}
	return verdict{}, lost, errContended
}

// pause lets other attempts go first, and reads the cell again.
func (s *Shared) pause(ctx context.Context, key CellKey, tries int) (view, error) {
	timer := time.NewTimer(rand.N(min(maxPause, minPause<<min(tries, 6))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.read(ctx, key)
	case <-ctx.Done():
		return view{}, errContended
	}
}

// update reads a cell and writes what the rule says.
func (s *Shared) update(ctx context.Context, key CellKey, judge rule) error {
	seen, err := s.read(ctx, key)
	if err != nil {
		return err
	}
	_, _, err = s.apply(ctx, key, seen, judge)
	return err
}
