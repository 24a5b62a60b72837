package book

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	// spacesPerFlush is how many spaces one commit writes.
	spacesPerFlush = 64

	// readsAtOnce is how many spaces are read at once, from a store over a
	// network.
	readsAtOnce = 16

	// flushWithin is how long the flush of some spaces may take.
	flushWithin = 10 * time.Second

	// maxTries is how often a flush writes rows that another gate changes at
	// the same time.
	maxTries = 10
)

// Part is what waits to be written to the rows of a space: a pointer or a map.
type Part interface {
	// Size is how much of Behind.Most it takes.
	Size() int
	// Batch returns the writes that add the part to the rows of a space, and
	// what another batch has to write after it, nil for nothing. It does not
	// change the part.
	Batch(ctx context.Context, e Engine, of Space) (b Batch, rest Part, err error)
}

// Behind writes to rows in the background. What a request adds waits in memory,
// in one part for each space, and is written every few seconds. Set the exported
// fields before the first Add.
type Behind struct {
	Engine Engine
	Every  time.Duration
	// Most is the size that all parts may have, those that are being written
	// included.
	Most int
	// Soon makes a flush begin once three quarters of it are taken.
	Soon bool
	// Log gets the failures of flushes in the background.
	Log *outage.Log
	// Failed is called with a part that cannot be written, with what is pending
	// of its space, and whether Close was called. It returns what is pending
	// then. It must not use the Behind. Without it, the part is dropped.
	Failed func(pending, failed Part, closed bool) Part

	mu      sync.Mutex // guards what follows; never held while the engine is used
	pending map[Space]Part
	writing map[Space]*flush // by spaces without a handle
	size    int              // of all pending and being written
	timer   *time.Timer      // of the next flush; nil if nothing waits and none runs
	closed  bool
}

// flush writes some parts.
type flush struct {
	parts map[Space]Part // not changed after the beginning
	done  chan struct{}
	err   error // once done is closed
}

// Add lets edit change and return the part that waits for a space, or return the
// first one. full tells whether there is no room. It waits for no store. It
// returns false, and adds nothing, after Close.
func (w *Behind) Add(of Space, edit func(p Part, full bool) Part) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if full := w.size >= w.Most; !w.closed {
		w.edit(of, func(p Part) Part { return edit(p, full) })
	}
	return !w.closed
}

// edit changes the part that waits for a space. The caller holds mu.
func (w *Behind) edit(of Space, edit func(Part) Part) {
	before := w.pending[of]
	if before != nil {
		w.size -= before.Size()
	}
	p := edit(before)
	if p == nil {
		return
	}
	if w.size += p.Size(); w.pending == nil {
		w.pending, w.writing = map[Space]Part{}, map[Space]*flush{}
	}
	if before == nil {
		w.pending[of] = p
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(w.Every, w.flushAll)
	} else if w.Soon && w.size >= w.Most/4*3 && w.timer.Stop() {
		w.timer.Reset(0)
	}
}

// flushAll is a flush in the background.
func (w *Behind) flushAll() {
	if err := w.Flush(context.Background(), ""); err != nil {
		w.Log.Failed(slog.Any("error", err))
	} else {
		w.Log.Worked()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer = nil; len(w.pending) > 0 && !w.closed {
		w.timer = time.AfterFunc(w.Every, w.flushAll)
	}
}

// Close writes what waits. Failed gets what waits behind a write that hangs.
func (w *Behind) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	err := w.Flush(ctx, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	for of, p := range w.pending {
		delete(w.pending, of)
		if w.size -= p.Size(); w.Failed != nil {
			w.Failed(nil, p, true)
		}
	}
	return err
}

// Flush writes what waits for the spaces of an account, or for all if it is
// empty, and waits for the flushes of these that are under way. What it has begun
// goes on if ctx ends.
func (w *Behind) Flush(ctx context.Context, account string) (err error) {
	for some := range slices.Chunk(w.unwritten(account), spacesPerFlush) {
		for len(some) > 0 {
			var underWay map[*flush]bool
			underWay, some = w.begin(ctx, some)
			for f := range underWay {
				select {
				case <-f.done:
					err = cmp.Or(err, f.err)
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}
	}
	return err
}

// unwritten returns the spaces, all or those of an account, that have a part
// which waits or is being written.
func (w *Behind) unwritten(account string) (spaces []Space) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for of := range w.pending {
		spaces = append(spaces, of)
	}
	for of := range w.writing {
		if w.pending[of] == nil {
			spaces = append(spaces, of)
		}
	}
	return slices.DeleteFunc(spaces, func(of Space) bool { return account != "" && of.Account != account })
}

// begin begins a flush of spaces. It returns all flushes of them that are under
// way, and the spaces that have to wait for one: two flushes do not write the same
// rows, nor does one flush for two handles.
func (w *Behind) begin(ctx context.Context, spaces []Space) (underWay map[*flush]bool, later []Space) {
	own := &flush{parts: map[Space]Part{}, done: make(chan struct{})}
	underWay = map[*flush]bool{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range spaces {
		rows, p := of, w.pending[of]
		rows.Handle = 0
		f := w.writing[rows]
		switch {
		case f != nil:
			if underWay[f] = true; p != nil {
				later = append(later, of)
			}
		case p != nil:
			own.parts[of], w.writing[rows], underWay[own] = p, own, true
			delete(w.pending, of)
		}
	}
	if underWay[own] {
		// The end of a request must not lose what it has taken.
		go w.run(context.WithoutCancel(ctx), own)
	}
	return underWay, later
}

// run writes the parts of a flush. Failed gets what it could not write.
func (w *Behind) run(ctx context.Context, f *flush) {
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	left, err := w.write(ctx, f.parts)
	w.mu.Lock()
	defer w.mu.Unlock()
	for of, p := range f.parts {
		w.size -= p.Size()
		of.Handle = 0
		delete(w.writing, of)
	}
	for of, p := range left {
		if w.Failed != nil {
			w.edit(of, func(pending Part) Part { return w.Failed(pending, p, w.closed) })
		}
	}
	f.err = err
	close(f.done)
}

// write adds parts to their rows, and returns what it could not write. Its error
// is that of one of them: the others are written.
func (w *Behind) write(ctx context.Context, parts map[Space]Part) (left map[Space]Part, err error) {
	left = maps.Clone(parts)
	for tries := 0; len(parts) > 0; tries++ {
		if tries == maxTries {
			return left, fmt.Errorf("%w: %w", store.ErrUnavailable, ErrConflict)
		}
		batches, rests, failed := w.batches(ctx, parts)
		err = cmp.Or(err, failed)
		conflict, again := false, map[Space]Part{}
		for i, failed := range w.Engine.Commit(ctx, batches...) {
			switch of := batches[i].Space; {
			case errors.Is(failed, ErrConflict):
				again[of], conflict = parts[of], true
			case failed != nil:
				err = cmp.Or(err, failed)
			default:
				tries = -1
				if delete(left, of); rests[of] != nil {
					left[of], again[of] = rests[of], rests[of]
				}
			}
		}
		if parts = again; conflict {
			time.Sleep(rand.N(5 * time.Millisecond))
		}
	}
	return left, err
}

// batches returns a batch for each part, and what is left after it. It leaves out
// those that fail, and returns one of their errors.
func (w *Behind) batches(ctx context.Context, parts map[Space]Part) (list []Batch, rests map[Space]Part, err error) {
	var mu sync.Mutex // guards the results
	var reads errgroup.Group
	reads.SetLimit(readsAtOnce)
	rests = map[Space]Part{}
	for of, p := range parts {
		reads.Go(func() error {
			b, rest, err := p.Batch(ctx, w.Engine, of)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				b.Lossy = true
				list, rests[of] = append(list, b), rest
			}
			return err
		})
	}
	err = reads.Wait()
	return list, rests, err
}
