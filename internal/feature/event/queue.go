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
	adding chan struct{} // full while this gate adds, so that it has no conflicts with itself
}

// NewQueue returns the queue of an open store.
func NewQueue(of *book.Book) *Queue {
	return &Queue{Book: of, now: of.Now, adding: make(chan struct{}, 1)}
}

const positionRow = "c"

// position is the entry of the log up to which events were made, and the number
// of the event that was queued last.
type position [3]int64

// Add adds an event, unless its ID is known. What it adds survives the end of the
// process.
func (q *Queue) Add(ctx context.Context, event store.Event) (isNew bool, err error) {
	added, err := q.change(ctx, func(*position) (made, error) { return made{events: []store.Event{event}}, nil })
	return len(added) > 0, err
}

// Follow makes events of the entries of the log that were added since the last
// call of any gate, and returns those that are new. Each entry is passed once,
// also if a gate ends between a change and its events; more tells whether there
// are more entries. It makes Expiring look at the keys of the entries.
func (q *Queue) Follow(ctx context.Context, since time.Time, events func(store.Entry) []store.Event) (added []store.Event, more bool, err error) {
	added, err = q.change(ctx, func(at *position) (m made, err error) {
		last := store.EntryID{Milliseconds: at[0], Number: at[1]}
		entries, next, err := q.SomeEntries(ctx, book.EntryFilter{Since: since}, last, page, func() bool { return true })
		for _, e := range entries {
			last = e.ID
			m.events = append(m.events, events(e)...)
			m.writes = append(m.writes, alarms(e)...)
		}
		if more = next != (store.EntryID{}); more {
			last = next
		}
		at[0], at[1] = last.Milliseconds, last.Number
		return m, err
	})
	return added, more && err == nil, err
}

// page is how many entries or rows are read at once.
const page = 100

// made is what a change adds: events, and writes to other rows of the queue.
type made struct {
	events []store.Event
	writes []book.Write
}

// change moves the position, and adds what list returns, apart from events whose
// IDs are known. It repeats that if another gate changes the position.
func (q *Queue) change(ctx context.Context, list func(*position) (made, error)) (added []store.Event, err error) {
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

func (q *Queue) tryChange(ctx context.Context, list func(*position) (made, error)) (added []store.Event, err error) {
	var before position
	old, err := q.row(ctx, book.EventSpace, positionRow, &before)
	if err != nil {
		return nil, err
	}
	at := before
	m, err := list(&at)
	if err != nil || len(m.events)+len(m.writes) == 0 && at == before {
		return nil, err
	}
	writes, keys := m.writes, []string{positionRow}
	for _, e := range m.events {
		keys = append(keys, "k "+e.ID)
	}
	known, err := q.GetRows(ctx, book.EventSpace, keys...)
	if err != nil {
		return nil, err
	}
	for i, e := range m.events {
		if known[i+1].Value != nil {
			continue
		}
		writes = append(writes, book.Write{Row: book.Row{Key: keys[i+1], Value: book.EncodeRow(""), Expires: e.Known}, Check: true})
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

// after returns up to limit rows of queued events behind a key, "" for the first.
func (q *Queue) after(ctx context.Context, key string, limit int) ([]book.Row, error) {
	found, err := q.Scan(ctx, limit, book.Range{Space: book.EventSpace, From: cmp.Or(key, "q ") + "\x00", To: "q!"})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}
