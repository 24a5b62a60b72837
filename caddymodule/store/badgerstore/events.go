package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// eventQueue has the queued events. When they are due, and how often they were
// claimed, is in memory only: after a restart all of them are due.
type eventQueue struct {
	mu   sync.Mutex
	list []*store.Event // by time
}

func eventKey(id string) []byte { return append([]byte{prefixEvent}, id...) }
func knownKey(id string) []byte { return append([]byte{prefixKnown}, id...) }

func eventRow(event *store.Event) change {
	e := newEncoder()
	e.string(event.Type)
	e.time(event.At)
	e.string(string(event.Body))
	e.time(event.Known)
	return change{key: eventKey(event.ID), value: e.buf}
}

func decodeEvent(key, value []byte) (*store.Event, error) {
	d := newDecoder(value)
	event := &store.Event{ID: string(key[1:]), Type: d.string(), At: d.time(), Body: []byte(d.string()), Known: d.time(), Queued: true}
	event.Due = event.At
	if err := d.end(); err != nil {
		return nil, fmt.Errorf("event %.60s: %w", event.ID, err)
	}
	return event, nil
}

// knownRow remembers the id of an event. Its value is the time until then:
// Badger does not tell when a row expires.
func knownRow(id string, until time.Time) change {
	e := newEncoder()
	e.time(until)
	return change{key: knownKey(id), value: e.buf, expires: until}
}

// load reads the queued events.
func (q *eventQueue) load(a *archive) error {
	err := a.scan([]byte{prefixEvent}, func(key, value []byte) error {
		event, err := decodeEvent(key, value)
		q.list = append(q.list, event)
		return err
	})
	slices.SortStableFunc(q.list, byHappening)
	return err
}

func byHappening(a, b *store.Event) int { return a.At.Compare(b.At) }

// find returns the place of a queued event, or -1.
func (q *eventQueue) find(id string) int {
	return slices.IndexFunc(q.list, func(e *store.Event) bool { return e.ID == id })
}

// AddEvent implements store.Events.
func (s *Store) AddEvent(_ context.Context, event store.Event) (isNew bool, dropped int, err error) {
	err = s.ledger.Use(func() error {
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		err := s.archive.get(knownKey(event.ID), func([]byte) error { return nil })
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		changes := []change{knownRow(event.ID, event.Known)}
		list := s.events.list
		if event.Queued {
			event.At = event.At.UTC()
			event.Attempts, event.Due = 0, event.At
			changes = append(changes, eventRow(&event))
			list = append(slices.Clip(list), &event)
			slices.SortStableFunc(list, byHappening)
		}
		excess := list[:max(0, len(list)-store.MaxQueued)]
		for _, old := range excess {
			changes = append(changes, change{key: eventKey(old.ID)})
		}
		if err := s.archive.write(changes...); err != nil {
			return err
		}
		isNew, dropped, s.events.list = true, len(excess), list[len(excess):]
		return nil
	})
	return isNew, dropped, err
}

// ClaimEvents implements store.Events.
func (s *Store) ClaimEvents(_ context.Context, now time.Time, lease time.Duration, limit int) (list []store.Event, err error) {
	err = s.ledger.Use(func() error {
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		for _, event := range s.events.list {
			if len(list) < limit && !event.Due.After(now) {
				event.Due, event.Attempts = now.Add(lease), event.Attempts+1
				list = append(list, *event)
			}
		}
		return nil
	})
	return list, err
}

// RetryEvent implements store.Events.
func (s *Store) RetryEvent(_ context.Context, id string, due time.Time) error {
	return s.ledger.Use(func() error {
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		if i := s.events.find(id); i >= 0 {
			s.events.list[i].Due = due
		}
		return nil
	})
}

// RemoveEvent implements store.Events.
func (s *Store) RemoveEvent(_ context.Context, id string) error {
	return s.ledger.Use(func() error {
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		i := s.events.find(id)
		if i < 0 {
			return nil
		}
		if err := s.archive.write(change{key: eventKey(id)}); err != nil {
			return err
		}
		s.events.list = slices.Delete(s.events.list, i, i+1)
		return nil
	})
}

// QueuedEvents implements store.Events.
func (s *Store) QueuedEvents(context.Context) (int, error) {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	return len(s.events.list), nil
}
