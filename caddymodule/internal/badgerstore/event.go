package badgerstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// eventQueue is the events that wait for delivery. They are also rows. Which
// of them are claimed, and when they are due, is only here: after a restart
// all are due at once.
type eventQueue struct {
	mu   sync.Mutex // guards the following, and held while events are written
	list []*store.Event
	most int // store.MaxQueued, except in tests
}

// loadEvents reads the queue.
func (s *Store) loadEvents() error {
	err := s.archive.scan([]byte{prefixQueued}, func(key, value []byte) error {
		e, err := decodeEvent(key, value)
		s.events.list = append(s.events.list, &e)
		return err
	})
	slices.SortStableFunc(s.events.list, byInstant)
	return err
}

// byInstant sorts the event that happened first before the others.
func byInstant(a, b *store.Event) int { return a.At.Compare(b.At) }

// find returns the place of an event in the queue, or -1.
func (q *eventQueue) find(id string) int {
	return slices.IndexFunc(q.list, func(e *store.Event) bool { return e.ID == id })
}

// useEvents runs fn with the queue locked.
func (s *Store) useEvents(fn func(q *eventQueue) error) error {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	return s.ledger.Use(func() error { return fn(&s.events) })
}

// AddEvent implements store.Events.
func (s *Store) AddEvent(_ context.Context, event store.Event) (isNew bool, dropped int, err error) {
	err = s.useEvents(func(q *eventQueue) error {
		err := s.archive.get(knownKey(event.ID), func([]byte) error { return nil })
		if err == nil || q.find(event.ID) >= 0 {
			return nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		changes := []change{knownChange(&event)}
		var oldest []*store.Event
		if event.Queued {
			changes = append(changes, eventChange(&event))
			oldest = q.list[:max(0, len(q.list)+1-q.most)]
		}
		for _, e := range oldest {
			changes = append(changes, change{key: queuedKey(e.ID)})
		}
		if err := s.archive.write(changes...); err != nil {
			return err
		}
		isNew, dropped = true, len(oldest)
		q.list = slices.Delete(q.list, 0, dropped)
		if event.Queued {
			q.add(event)
		}
		return nil
	})
	return isNew, dropped, err
}

// add inserts an event behind those that happened before it or at the same
// time.
func (q *eventQueue) add(e store.Event) {
	e.Attempts, e.Due = 0, e.At
	at, _ := slices.BinarySearchFunc(q.list, &e, func(a, b *store.Event) int { return cmp.Or(byInstant(a, b), -1) })
	q.list = slices.Insert(q.list, at, &e)
}

// ClaimEvents implements store.Events.
func (s *Store) ClaimEvents(_ context.Context, now time.Time, lease time.Duration, limit int) (list []store.Event, err error) {
	err = s.useEvents(func(q *eventQueue) error {
		for _, e := range q.list {
			if len(list) >= limit {
				return nil
			}
			if !e.Due.After(now) {
				e.Due, e.Attempts = now.Add(lease), e.Attempts+1
				list = append(list, *e)
			}
		}
		return nil
	})
	return list, err
}

// RetryEvent implements store.Events.
func (s *Store) RetryEvent(_ context.Context, id string, due time.Time) error {
	return s.useEvents(func(q *eventQueue) error {
		if i := q.find(id); i >= 0 {
			q.list[i].Due = due
		}
		return nil
	})
}

// RemoveEvent implements store.Events.
func (s *Store) RemoveEvent(_ context.Context, id string) error {
	return s.useEvents(func(q *eventQueue) error {
		i := q.find(id)
		if i < 0 {
			return nil
		}
		if err := s.archive.write(change{key: queuedKey(id)}); err != nil {
			return err
		}
		q.list = slices.Delete(q.list, i, i+1)
		return nil
	})
}

// QueuedEvents implements store.Events.
func (s *Store) QueuedEvents(context.Context) (queued int, err error) {
	err = s.useEvents(func(q *eventQueue) error {
		queued = len(q.list)
		return nil
	})
	return queued, err
}

func queuedKey(id string) []byte { return append([]byte{prefixQueued}, id...) }

func knownKey(id string) []byte { return append([]byte{prefixKnown}, id...) }

// knownChange is the row that makes the id of an event known.
func knownChange(e *store.Event) change {
	v := newEncoder()
	v.time(e.Known)
	return change{key: knownKey(e.ID), value: v.buf, expires: e.Known}
}

func decodeKnown(key, value []byte) (store.Event, error) {
	d := newDecoder(value)
	e := store.Event{ID: string(key[1:]), Known: d.time()}
	if err := d.end(); err != nil {
		return e, fmt.Errorf("known event %.40s: %w", e.ID, err)
	}
	return e, nil
}

// eventChange is the row of a queued event.
func eventChange(e *store.Event) change {
	v := newEncoder()
	v.string(e.Type)
	v.time(e.At)
	v.time(e.Known)
	v.bytes(e.Body)
	return change{key: queuedKey(e.ID), value: v.buf}
}

func decodeEvent(key, value []byte) (store.Event, error) {
	d := newDecoder(value)
	e := store.Event{ID: string(key[1:]), Type: d.string(), At: d.time(), Known: d.time(), Body: bytes.Clone(d.bytes(d.uint())), Queued: true}
	e.Due = e.At
	if err := d.end(); err != nil {
		return e, fmt.Errorf("event %.40s: %w", e.ID, err)
	}
	return e, nil
}
