package book

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Events are one space, with these rows:
//
//	k id        that the id of an event is known: the key of its q row while it is queued, then an empty text until Known
//	q at id     a queued event, in the order in which events happened
//	d due id    the key of its q row, in the order in which events are due
//	n           how many events are queued
//	c           the entry of the log up to which events were made
//
// Each commit that adds or removes an event checks n, and one that follows the
// log checks c, so gates do not disturb each other.
var eventSpace = Space{Name: "events"}

const (
	numberRow   = "n"
	followedRow = "c"
)

func knownRow(id string) string { return "k " + id }

func queueRow(e *store.Event) string { return "q " + instant(e.At) + e.ID }

func dueRow(e *store.Event) string { return "d " + instant(e.Due) + e.ID }

// newEventValue returns a pointer to the type of the rows with a key, nil if
// there are no such rows.
func newEventValue(key string) any {
	switch {
	case strings.HasPrefix(key, "q "):
		return new(store.Event)
	case strings.HasPrefix(key, "k "), strings.HasPrefix(key, "d "):
		return new(string)
	case key == numberRow:
		return new(int)
	case key == followedRow:
		return new([2]int64)
	}
	return nil
}

// instant writes a time since 1970 so that times and texts have one order.
func instant(t time.Time) string { return fmt.Sprintf("%020d ", max(0, t.UnixNano())) }

// eventWrites collects the writes of one commit to the events.
type eventWrites struct {
	writes []Write
	queued int
	before []byte // the row of queued
}

func (b *Book) readNumber(ctx context.Context) (*eventWrites, error) {
	found, err := b.GetRows(ctx, eventSpace, numberRow)
	if err != nil {
		return nil, err
	}
	c := &eventWrites{before: found[0].Value}
	if c.before != nil {
		err = decode(c.before, &c.queued)
	}
	return c, err
}

func (c *eventWrites) put(key string, value []byte, expires time.Time) {
	c.writes = append(c.writes, Write{Row: Row{Key: key, Value: value, Expires: expires}})
}

// add adds a queued event, or changes its Due and Attempts. Its id is known at
// least until it is removed.
func (c *eventWrites) add(e *store.Event) {
	c.put(queueRow(e), encode(e), time.Time{})
	c.put(dueRow(e), encode(queueRow(e)), time.Time{})
	c.put(knownRow(e.ID), encode(queueRow(e)), time.Time{})
}

// remove removes an event as it was read.
func (c *eventWrites) remove(row Row, e *store.Event) {
	c.writes = append(c.writes, Write{Row: Row{Key: row.Key}, Check: true, Old: row.Value})
	c.put(dueRow(e), nil, time.Time{})
	c.put(knownRow(e.ID), encode(""), e.Known)
	c.queued--
}

func (b *Book) commitEvents(ctx context.Context, c *eventWrites) error {
	c.writes = append(c.writes, Write{Row: Row{Key: numberRow, Value: encode(c.queued)}, Check: true, Old: c.before})
	return commitOne(ctx, b.Engine, eventSpace, c.writes)
}

// AddEvent adds an event that is due at once, unless its ID is known. isNew
// tells whether it was added, dropped how many older events were removed
// because more than store.MaxQueued are queued. What it adds survives the end of the
// process.
func (b *Book) AddEvent(ctx context.Context, event store.Event) (isNew bool, dropped int, err error) {
	err = b.retryEvents(ctx, func() error {
		c, err := b.readNumber(ctx)
		if err != nil {
			return err
		}
		added, n, err := b.addEvents(ctx, c, []store.Event{event})
		isNew, dropped = len(added) > 0, n
		if err != nil || !isNew {
			return err
		}
		return b.commitEvents(ctx, c)
	})
	return isNew, dropped, err
}

// addEvents adds the events whose ids are not known to a change.
func (b *Book) addEvents(ctx context.Context, c *eventWrites, events []store.Event) (added []store.Event, dropped int, err error) {
	keys := make([]string, len(events))
	for i := range events {
		keys[i] = knownRow(events[i].ID)
	}
	known, err := b.GetRows(ctx, eventSpace, keys...)
	if err != nil {
		return nil, 0, err
	}
	seen := map[string]bool{}
	for i, e := range events {
		if known[i].Value != nil || seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		e.Due, e.Attempts = e.At, 0
		if e.Queued {
			c.add(&e)
			c.queued++
		} else {
			c.put(keys[i], encode(""), e.Known)
		}
		added = append(added, e)
	}
	if dropped = max(0, c.queued-store.MaxQueued); dropped == 0 {
		return added, 0, nil
	}
	found, err := b.Scan(ctx, dropped, Range{eventSpace, "q ", "q!"})
	if err != nil {
		return nil, 0, err
	}
	for _, row := range found[0] {
		oldest, err := decodeEvent(row)
		if err != nil {
			return nil, 0, err
		}
		c.remove(row, &oldest)
	}
	return added, len(found[0]), nil
}

// FollowLog makes events of the entries of the log that were added since the
// last call of any gate, and returns those that are new. event returns nil for
// an entry without an event. Each entry is passed once, also if a gate ends
// between a change and its event; more tells whether there are more of them.
func (b *Book) FollowLog(ctx context.Context, since time.Time, event func(store.Entry) *store.Event) (added []store.Event, dropped int, more bool, err error) {
	err = b.retryEvents(ctx, func() error {
		found, err := b.GetRows(ctx, eventSpace, followedRow)
		if err != nil {
			return err
		}
		after := b.beforeSince(since)
		if value := found[0].Value; value != nil {
			var followed [2]int64
			if err := decode(value, &followed); err != nil {
				return fmt.Errorf("the position of events in the log: %w", err)
			}
			if id := (store.EntryID{Milliseconds: followed[0], Number: followed[1]}); id.Compare(after) > 0 {
				after = id
			}
		}
		entries, err := b.Entries(ctx, after, store.EntryID{}, false, entriesPerRead)
		added, dropped, more = nil, 0, len(entries) == entriesPerRead
		if err != nil || len(entries) == 0 {
			return err
		}
		c, err := b.readNumber(ctx)
		if err != nil {
			return err
		}
		var events []store.Event
		for _, l := range entries {
			e, err := decodeEntry(l)
			if err != nil {
				return err
			}
			if made := event(e); made != nil {
				events = append(events, *made)
			}
		}
		if added, dropped, err = b.addEvents(ctx, c, events); err != nil {
			return err
		}
		last := entries[len(entries)-1].ID
		c.writes = append(c.writes, Write{
			Row:   Row{Key: followedRow, Value: encode([2]int64{last.Milliseconds, last.Number})},
			Check: true, Old: found[0].Value,
		})
		return b.commitEvents(ctx, c)
	})
	if err != nil {
		return nil, 0, false, err
	}
	return added, dropped, more, nil
}

// claimAmong is how many of the events that are due longest ClaimEvents looks
// at, at least.
const claimAmong = 256

// ClaimEvents returns up to limit queued events that are due at now, those that
// happened first before the others; of many that are due, it looks only at
// those that are due longest. They are due again after lease, so that no
// other gate claims them meanwhile.
func (b *Book) ClaimEvents(ctx context.Context, now time.Time, lease time.Duration, limit int) (list []store.Event, err error) {
	err = b.retryEvents(ctx, func() error {
		list = nil
		due, err := b.Scan(ctx, max(limit, claimAmong), Range{eventSpace, "d ", "d " + instant(now.Add(1))})
		if err != nil || len(due[0]) == 0 {
			return err
		}
		keys, dueOf := make([]string, len(due[0])), map[string]Row{}
		for i, row := range due[0] {
			if err := decode(row.Value, &keys[i]); err != nil {
				return fmt.Errorf("event %.80q: %w", row.Key, err)
			}
			dueOf[keys[i]] = row
		}
		slices.Sort(keys) // by the time at which they happened
		keys = slices.Compact(keys)
		rows, err := b.GetRows(ctx, eventSpace, keys[:min(limit, len(keys))]...)
		if err != nil {
			return err
		}
		c := &eventWrites{}
		for _, row := range rows {
			due := dueOf[row.Key]
			var e store.Event
			if row.Value != nil {
				if e, err = decodeEvent(row); err != nil {
					return err
				}
			}
			if row.Value == nil || dueRow(&e) != due.Key {
				// The event was removed or claimed meanwhile, and the commit
				// fails. If not, its d row is wrong.
				c.writes = append(c.writes, Write{Row: Row{Key: due.Key}, Check: true, Old: due.Value})
				continue
			}
			c.update(row, &e, func(e *store.Event) { e.Due, e.Attempts = now.Add(lease), e.Attempts+1 })
			list = append(list, e)
		}
		return commitOne(ctx, b.Engine, eventSpace, c.writes)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// update changes an event as it was read.
func (c *eventWrites) update(row Row, e *store.Event, edit func(*store.Event)) {
	c.put(dueRow(e), nil, time.Time{})
	edit(e)
	c.add(e)
	for i := range c.writes {
		if c.writes[i].Key == row.Key {
			c.writes[i].Check, c.writes[i].Old = true, row.Value
		}
	}
}

// queuedEvent reads a queued event, nil if there is none.
func (b *Book) queuedEvent(ctx context.Context, id string) (row Row, e *store.Event, err error) {
	var key string
	if _, err := b.readRow(ctx, eventSpace, knownRow(id), &key); err != nil || key == "" {
		return row, nil, err
	}
	rows, err := b.GetRows(ctx, eventSpace, key)
	if err != nil || rows[0].Value == nil {
		return row, nil, err
	}
	found, err := decodeEvent(rows[0])
	return rows[0], &found, err
}

// RetryEvent makes a queued event due at another time. It does nothing if the
// event is not queued.
func (b *Book) RetryEvent(ctx context.Context, id string, due time.Time) error {
	return b.retryEvents(ctx, func() error {
		row, e, err := b.queuedEvent(ctx, id)
		if err != nil || e == nil {
			return err
		}
		c := &eventWrites{}
		c.update(row, e, func(e *store.Event) { e.Due = due })
		return commitOne(ctx, b.Engine, eventSpace, c.writes)
	})
}

// RemoveEvent removes an event from the queue. Its ID stays known.
func (b *Book) RemoveEvent(ctx context.Context, id string) error {
	return b.retryEvents(ctx, func() error {
		c, err := b.readNumber(ctx)
		if err != nil {
			return err
		}
		row, e, err := b.queuedEvent(ctx, id)
		if err != nil || e == nil {
			return err
		}
		c.remove(row, e)
		return b.commitEvents(ctx, c)
	})
}

// QueuedEvents returns how many events are queued.
func (b *Book) QueuedEvents(ctx context.Context) (int, error) {
	c, err := b.readNumber(ctx)
	if err != nil {
		return 0, err
	}
	return c.queued, nil
}

// OldestEvent returns when the oldest queued event happened, zero without one.
func (b *Book) OldestEvent(ctx context.Context) (at time.Time, err error) {
	found, err := b.Scan(ctx, 1, Range{eventSpace, "q ", "q!"})
	if err != nil || len(found[0]) == 0 {
		return at, err
	}
	oldest, err := decodeEvent(found[0][0])
	return oldest.At, err
}

func decodeEvent(row Row) (store.Event, error) {
	e := store.Event{Queued: true}
	if err := decode(row.Value, &e); err != nil {
		return e, fmt.Errorf("event %.80q: %w", row.Key, err)
	}
	return e, nil
}
