package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// reports keeps refused calls, the audit log and events.
type reports struct {
	refused map[store.Refused]int64 // by a row without Calls
	entries []store.Entry           // oldest first
	known   map[string]time.Time    // by the id of the event
	queue   []*store.Event          // in the order in which they happened
}

func newReports() reports {
	return reports{refused: map[store.Refused]int64{}, known: map[string]time.Time{}}
}

// AddRefused implements store.Refusals.
func (s *Store) AddRefused(_ context.Context, rows []store.Refused) error {
	defer s.lock()()
	for _, row := range rows {
		calls := row.Calls
		row.Calls = 0
		s.refused[row] += calls
	}
	return nil
}

// ListRefused implements store.Refusals.
func (s *Store) ListRefused(_ context.Context, account string, first, last calendar.Day, after store.Refused, limit int) (list []store.Refused, err error) {
	defer s.lock()()
	after.Calls = 0
	for _, row := range slices.SortedFunc(maps.Keys(s.refused), store.Refused.Compare) {
		if first <= row.Day && row.Day <= last && row.Compare(after) > 0 && (account == "" || account == row.Account) && len(list) < limit {
			row.Calls = s.refused[row]
			list = append(list, row)
		}
	}
	return list, nil
}

// AddEntries implements store.Audit.
func (s *Store) AddEntries(_ context.Context, entries []store.Entry) error {
	defer s.lock()()
	for i := range entries {
		var last store.EntryID
		if n := len(s.entries); n > 0 {
			last = s.entries[n-1].ID
		}
		entries[i].ID = last.Next(entries[i].At)
		s.entries = append(s.entries, entries[i])
	}
	return nil
}

// ListEntries implements store.Audit.
func (s *Store) ListEntries(_ context.Context, account string, since time.Time, after store.EntryID, limit int) (list []store.Entry, err error) {
	defer s.lock()()
	for _, e := range s.entries {
		if !e.At.Before(since) && e.ID.Compare(after) > 0 && (account == "" || account == e.Account) && len(list) < limit {
			list = append(list, e)
		}
	}
	return list, nil
}

// LastEntries implements store.Audit.
func (s *Store) LastEntries(_ context.Context, account string, since time.Time, before store.EntryID, limit int) (list []store.Entry, err error) {
	defer s.lock()()
	for _, e := range slices.Backward(s.entries) {
		isBefore := before == (store.EntryID{}) || e.ID.Compare(before) < 0
		if !e.At.Before(since) && isBefore && (account == "" || account == e.Account) && len(list) < limit {
			list = append(list, e)
		}
	}
	return list, nil
}

// AddEvent implements store.Events.
func (s *Store) AddEvent(_ context.Context, event store.Event) (isNew bool, dropped int, err error) {
	defer s.lock()()
	if _, known := s.known[event.ID]; known {
		return false, 0, nil
	}
	s.known[event.ID] = event.Known
	if !event.Queued {
		return true, 0, nil
	}
	event.Attempts, event.Due = 0, event.At
	at, _ := slices.BinarySearchFunc(s.queue, &event, func(a, b *store.Event) int { return cmp.Or(a.At.Compare(b.At), -1) })
	s.queue = slices.Insert(s.queue, at, &event)
	dropped = max(0, len(s.queue)-store.MaxQueued)
	s.queue = s.queue[dropped:]
	return true, dropped, nil
}

// ClaimEvents implements store.Events.
func (s *Store) ClaimEvents(_ context.Context, now time.Time, lease time.Duration, limit int) (list []store.Event, err error) {
	defer s.lock()()
	for _, e := range s.queue {
		if !e.Due.After(now) && len(list) < limit {
			e.Due, e.Attempts = now.Add(lease), e.Attempts+1
			list = append(list, *e)
		}
	}
	return list, nil
}

// RetryEvent implements store.Events.
func (s *Store) RetryEvent(_ context.Context, id string, due time.Time) error {
	defer s.lock()()
	for _, e := range s.queue {
		if e.ID == id {
			e.Due = due
		}
	}
	return nil
}

// RemoveEvent implements store.Events.
func (s *Store) RemoveEvent(_ context.Context, id string) error {
	defer s.lock()()
	s.queue = slices.DeleteFunc(s.queue, func(e *store.Event) bool { return e.ID == id })
	return nil
}

// QueuedEvents implements store.Events.
func (s *Store) QueuedEvents(context.Context) (int, error) {
	defer s.lock()()
	return len(s.queue), nil
}
