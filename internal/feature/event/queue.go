package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// Queue keeps events until they are delivered, in rows of book.EventSpace. Its
// methods are safe for concurrent use. All gates that share a store have the
// same queue.
type Queue struct {
	*book.Book
	now    func() time.Time
	shared bool          // whether other gates can use the store
	adding chan struct{} // full while this gate adds, so that it has no conflicts with itself
}

// NewQueue returns the queue of an open store.
func NewQueue(of *book.Book) *Queue {
	q := &Queue{Book: of, now: time.Now, adding: make(chan struct{}, 1)}
	if clock, shared := of.Engine.(store.Clock); shared {
		q.now, q.shared = clock.Now, true
	}
	return q
}

const positionRow = "c"

// position is the entry of the log up to which events were made, and the number
// of the event that was queued last.
type position [3]int64

// Add adds an event, unless its ID is known. What it adds survives the end of the
// process.
func (q *Queue) Add(ctx context.Context, event store.Event) (isNew bool, err error) {
	added, err := q.change(ctx, func(*position) ([]store.Event, error) { return []store.Event{event}, nil })
	return len(added) > 0, err
}

// Follow makes events of the entries of the log that were added since the last
// call of any gate, and returns those that are new. event returns nil for an
// entry without an event. Each entry is passed once, also if a gate ends between
// a change and its event; more tells whether there are more of them.
func (q *Queue) Follow(ctx context.Context, since time.Time, event func(store.Entry) *store.Event) (added []store.Event, more bool, err error) {
	added, err = q.change(ctx, func(at *position) (made []store.Event, err error) {
		const page = 100
		last := store.EntryID{Milliseconds: at[0], Number: at[1]}
		entries, next, err := q.SomeEntries(ctx, book.EntryFilter{Since: since}, last, page, func() bool { return true })
		for _, e := range entries {
			last = e.ID
			if m := event(e); m != nil {
				made = append(made, *m)
			}
		}
		if more = next != (store.EntryID{}); more {
			last = next
		}
		at[0], at[1] = last.Milliseconds, last.Number
		return made, err
	})
	return added, more && err == nil, err
}

// change moves the position, and adds the events that list returns and whose IDs
// are not known. It repeats that if another gate changes the position.
func (q *Queue) change(ctx context.Context, list func(*position) ([]store.Event, error)) (added []store.Event, err error) {
	select {
	case q.adding <- struct{}{}:
		defer func() { <-q.adding }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
	for {
		if added, err = q.tryChange(ctx, list); !errors.Is(err, book.ErrConflict) {
			return added, err
		}
		select {
		case <-time.After(rand.N(5 * time.Millisecond)):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
}

func (q *Queue) tryChange(ctx context.Context, list func(*position) ([]store.Event, error)) (added []store.Event, err error) {
	var before position
	old, err := q.row(ctx, book.EventSpace, positionRow, &before)
	if err != nil {
		return nil, err
	}
	at, writes := before, []book.Write(nil)
	events, err := list(&at)
	if err != nil || len(events) == 0 && at == before {
		return nil, err
	}
	keys := []string{positionRow}
	for _, e := range events {
		keys = append(keys, "k "+e.ID)
	}
	known, err := q.GetRows(ctx, book.EventSpace, keys...)
	if err != nil {
		return nil, err
	}
	for i, e := range events {
		if known[i+1].Value != nil {
			continue
		}
		writes = append(writes, book.Write{Row: book.Row{Key: keys[i+1], Value: book.EncodeRow(""), Expires: e.Known}})
		if e.Queued {
			at[2] = max(at[2]+1, q.now().UnixNano()) // above all numbers in a backup
			writes = append(writes, book.Write{Row: book.Row{Key: fmt.Sprintf("q %020d %s", at[2], e.ID), Value: book.EncodeRow(e)}})
		}
		added = append(added, e)
	}
	if len(writes) == 0 && at == before {
		return nil, nil
	}
	move := book.Write{Row: book.Row{Key: positionRow, Value: book.EncodeRow(at)}, Check: true, Old: old}
	return added, q.commit(ctx, book.EventSpace, append(writes, move)...)
}

// row reads a row, and returns its value before decoding, nil without a row.
func (q *Queue) row(ctx context.Context, of book.Space, key string, value any) (raw []byte, err error) {
	rows, err := q.GetRows(ctx, of, key)
	if err != nil || rows[0].Value == nil {
		return nil, err
	}
	return rows[0].Value, book.DecodeRow(rows[0], value)
}

func (q *Queue) commit(ctx context.Context, of book.Space, writes ...book.Write) error {
	return q.Commit(ctx, book.Batch{Space: of, Writes: writes})[0]
}

// leaseSpace has the row of the gate that delivers. No backup has it.
var leaseSpace = book.Space{Name: "webhook"}

const leaseRow = "lease"

// lease makes a sender the one that delivers, for a time or until release, unless
// another one is.
func (q *Queue) lease(ctx context.Context, sender string) (held bool, err error) {
	if !q.shared {
		return true, nil
	}
	var holder string
	old, err := q.row(ctx, leaseSpace, leaseRow, &holder)
	if err != nil || old != nil && holder != sender {
		return false, err
	}
	err = q.commit(ctx, leaseSpace, book.Write{
		Row: book.Row{Key: leaseRow, Value: book.EncodeRow(sender), Expires: q.now().Add(lease)}, Check: true, Old: old,
	})
	if errors.Is(err, book.ErrConflict) { // another gate was faster
		return false, nil
	}
	return err == nil, err
}

// release lets other gates deliver.
func (q *Queue) release(ctx context.Context, sender string) error {
	held, err := q.lease(ctx, sender)
	if held && q.shared {
		err = q.commit(ctx, leaseSpace, book.Write{Row: book.Row{Key: leaseRow}})
	}
	return err
}

// after returns up to limit rows of queued events behind a key, "" for the first.
func (q *Queue) after(ctx context.Context, key string, limit int) ([]book.Row, error) {
	found, err := q.Scan(ctx, limit, book.Range{Space: book.EventSpace, From: cmp.Or(key, "q ") + "\x00", To: "q!"})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}
