package login

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// Attempt is an admitted login attempt. It counts as failed until one of its
// methods says otherwise. The first call decides; later calls have no
// effect. All methods are safe for concurrent use.
type Attempt struct {
	limiter     *Limiter
	limits      Limits
	fingerprint fingerprint
	keys        []CellKey // of the client, and of the account if there is one
	marks       [2]mark   // of the attempt in these cells
	contended   bool      // whether another attempt changed a cell first
	settled     atomic.Bool
}

// mark finds an attempt in a cell again.
type mark struct {
	at    int64
	known bool // whether the client was known to the account at that time
}

// state is what a cell says about an attempt at one moment: one of the rules.
type state interface {
	// wait returns how long the rule refuses the attempt.
	wait() time.Duration
	// setBack returns whether the times moved, because the clock was set back.
	setBack() bool
	// add counts the attempt.
	add() mark
	// release deletes the attempt.
	release(m mark)
	// succeed notes that the password was right.
	succeed(m mark)
	// change encodes the state.
	change() Change
}

// view is a cell with its state.
type view struct {
	state
	key  CellKey
	cell Cell
}

func (a *Attempt) view(key CellKey, cell Cell) (v view, err error) {
	v.key, v.cell = key, cell
	if key.Kind == ClientCell {
		v.state, err = newClientState(a.limits, cell)
	} else {
		v.state, err = newAccountState(a.limits, a.fingerprint, cell)
	}
	return v, err
}

// read reads cells of the attempt.
func (a *Attempt) read(ctx context.Context, keys ...CellKey) ([]view, error) {
	cells, err := a.limiter.cells.Read(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("reading login attempts: %w", err)
	}
	views := make([]view, len(keys))
	for i, key := range keys {
		if views[i], err = a.view(key, cells[i]); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// reserve applies both rules, and counts the attempt if both admit it: in the
// client's cell first. If the account's cell then refuses it, the client gets
// its place back.
func (a *Attempt) reserve(client context.Context) (wait time.Duration, err error) {
	ctx, cancel := a.limiter.within(client)
	defer cancel()
	views, err := a.read(ctx, a.keys...)
	if err = cmp.Or(client.Err(), err); err != nil {
		return 0, err
	}
	// Both rules decide before anything is counted: the longer wait counts.
	for _, v := range views {
		wait = max(wait, v.wait())
	}
	if wait > 0 {
		return wait, a.moveBack(ctx, views)
	}
	for i, v := range views {
		err = a.edit(ctx, v, func(s state) bool {
			if wait = s.wait(); wait == 0 {
				a.marks[i] = s.add()
			}
			return wait == 0
		})
		if wait > 0 || err != nil {
			return wait, errors.Join(err, a.settle(ctx, 0, i, state.release))
		}
	}
	if err = a.limiter.cells.Save(ctx, a.keys...); err != nil {
		return 0, errors.Join(fmt.Errorf("saving login attempt: %w", err), a.settle(ctx, 0, len(a.keys), state.release))
	}
	return 0, nil
}

// moveBack saves the times that moved although the attempt is refused.
// Otherwise they would move again at the next attempt, and the wait would never
// end. If another attempt changed the cell, it has moved them.
func (a *Attempt) moveBack(ctx context.Context, views []view) error {
	for _, v := range views {
		if v.wait() == 0 || !v.setBack() {
			continue
		}
		_, _, err := a.limiter.cells.Swap(ctx, v.key, v.cell, v.change())
		if err == nil {
			err = a.limiter.cells.Save(ctx, v.key)
		}
		if err != nil {
			return fmt.Errorf("moving login attempts: %w", err)
		}
	}
	return nil
}

// settle changes the cells from a first to a last one, in which the attempt
// counts.
func (a *Attempt) settle(ctx context.Context, first, last int, outcome func(state, mark)) error {
	views, err := a.read(ctx, a.keys[first:last]...)
	for i, v := range slices.Backward(views) {
		err = errors.Join(err, a.edit(ctx, v, func(s state) bool { outcome(s, a.marks[first+i]); return true }))
	}
	return err
}

// finish settles the attempt with its outcome, and saves that, unless it is
// settled already. what names the outcome in errors.
func (a *Attempt) finish(ctx context.Context, what string, first int, outcome func(state, mark)) error {
	if a.settled.Swap(true) || first == len(a.keys) {
		return nil
	}
	ctx, cancel := a.limiter.within(ctx)
	defer cancel()
	if err := errors.Join(a.settle(ctx, first, len(a.keys), outcome), a.limiter.cells.Save(ctx, a.keys[first:]...)); err != nil {
		return fmt.Errorf("saving %s: %w", what, err)
	}
	return nil
}

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
)

var errContended = errors.New("too many others change the same cell")

// edit replaces a cell by what change makes of its state, unless that returns
// false.
func (a *Attempt) edit(ctx context.Context, v view, change func(state) bool) error {
	contended, err := a.limiter.edit(ctx, v.key, v.cell, func(cell Cell) (Change, bool, error) {
		now, err := a.view(v.key, cell)
		if err != nil || !change(now.state) {
			return Change{}, false, err
		}
		return now.change(), true, nil
	})
	a.contended = a.contended || contended
	return err
}

// edit replaces a cell by what change makes of it, unless that returns false. If
// something else changes the cell first, change runs again.
func (l *Limiter) edit(ctx context.Context, key CellKey, cell Cell, change func(Cell) (Change, bool, error)) (contended bool, err error) {
	for tries := range maxTries {
		changed, wanted, err := change(cell)
		if err != nil || !wanted || bytes.Equal(changed.Value, cell.Value) {
			return contended, err
		}
		now, swapped, err := l.cells.Swap(ctx, key, cell, changed)
		if err != nil {
			return contended, fmt.Errorf("writing a cell: %w", err)
		}
		if swapped {
			return contended, nil
		}
		if contended, cell = true, now; tries < patience {
			continue
		}
		if cell, err = l.pause(ctx, key, tries-patience); err != nil {
			return contended, err
		}
	}
	return contended, errContended
}

// pause lets other attempts go first, and reads the cell again.
func (l *Limiter) pause(ctx context.Context, key CellKey, tries int) (Cell, error) {
	select {
	case <-time.After(rand.N(min(maxPause, minPause<<min(tries, 6)))):
	case <-ctx.Done():
		return Cell{}, errContended
	}
	return l.read(ctx, key)
}

// read reads a cell.
func (l *Limiter) read(ctx context.Context, key CellKey) (Cell, error) {
	cells, err := l.cells.Read(ctx, key)
	if err != nil {
		return Cell{}, fmt.Errorf("reading a cell: %w", err)
	}
	return cells[0], nil
}

// Failed says that the password was wrong. The attempt counts as failed
// already, so there is nothing to write.
func (a *Attempt) Failed() { a.settled.Store(true) }

// Succeeded says that the password was right. It clears the failures of this
// client at this account, including attempts in flight, and makes the client
// known to the account. If it returns an error, the limiter may forget the
// success when its process ends.
func (a *Attempt) Succeeded(ctx context.Context) error {
	first := 0
	if a.limits.Strict {
		first = 1
	}
	return a.finish(ctx, "login success", first, state.succeed)
}

// Abandoned says that the password was not checked, because no service
// answered. It deletes the failure from the account. The attempt still counts
// for the client. If it returns an error, the failure may count again when the
// limiter's process has ended.
func (a *Attempt) Abandoned(ctx context.Context) error {
	return a.finish(ctx, "abandoned login attempt", 1, state.release)
}
