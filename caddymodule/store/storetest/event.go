package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// event returns a queued event some seconds after the time of the test.
func (s *suite) event(id string, seconds int) store.Event {
	at := s.now.Add(time.Duration(seconds) * time.Second)
	return store.Event{
		ID: id, Type: "tollgate.quota_exceeded", At: at, Body: []byte(`{"id":"` + id + "\"}\x00\xff"),
		Queued: true, Known: s.now.Add(48 * time.Hour),
	}
}

// addEvent adds an event and checks whether it is new.
func (s *suite) addEvent(event store.Event, wantNew bool) {
	s.Helper()
	isNew, dropped, err := s.store.AddEvent(s.Context(), event)
	if err != nil || isNew != wantNew || dropped != 0 {
		s.Errorf("adding %s: got %v, %d, %v, want %v", event.ID, isNew, dropped, err, wantNew)
	}
}

// wantClaim claims up to limit events with a lease of a minute.
func (s *suite) wantClaim(now time.Time, limit int, want ...store.Event) {
	s.Helper()
	got, err := s.store.ClaimEvents(s.Context(), now, time.Minute, limit)
	for i := range want {
		want[i].Due = now.Add(time.Minute)
	}
	if err != nil || !slices.EqualFunc(got, want, func(a, b store.Event) bool { return same(a, b) }) {
		s.Errorf("claim at %v:\n got %+v, %v\nwant %+v", now, got, err, want)
	}
}

func (s *suite) wantQueued(want int) {
	s.Helper()
	if got, err := s.store.QueuedEvents(s.Context()); err != nil || got != want {
		s.Errorf("queued: got %d, %v, want %d", got, err, want)
	}
}

// claimed returns an event after so many claims.
func claimed(event store.Event, attempts int) store.Event {
	event.Attempts = attempts
	return event
}

// events: an event is added once, is claimed in the order in which the events
// happened, is due again after the lease or when a retry says so, and is known
// after it was removed.
func (s *suite) events() {
	s.wantQueued(0)
	first, second, third, silent := s.event("evt_1", -30), s.event("evt_2", -20), s.event("evt_3", -10), s.event("evt_4", -30)
	silent.Queued = false
	for _, wantNew := range []bool{true, false} {
		for _, event := range []store.Event{second, third, first, silent} {
			s.addEvent(event, wantNew)
		}
	}
	s.wantQueued(3)
	s.wantClaim(s.now.Add(-time.Hour), 10)
	s.wantClaim(s.now, 2, claimed(first, 1), claimed(second, 1))
	s.wantClaim(s.now, 10, claimed(third, 1))
	s.wantClaim(s.now.Add(59*time.Second), 10)
	s.wantQueued(3)

	// The lease of the second event ends, the first one is retried later.
	s.must(s.store.RetryEvent(s.Context(), first.ID, s.now.Add(time.Hour)))
	s.must(s.store.RemoveEvent(s.Context(), third.ID))
	later := s.now.Add(time.Minute)
	s.wantClaim(later, 10, claimed(second, 2))
	s.wantClaim(s.now.Add(time.Hour), 1, claimed(first, 2))
	s.wantClaim(s.now.Add(time.Hour), 10, claimed(second, 3))

	// A removed event, an unknown one and one without delivery stay out.
	for _, id := range []string{second.ID, second.ID, "unknown", third.ID, silent.ID} {
		s.must(s.store.RemoveEvent(s.Context(), id))
		s.must(s.store.RetryEvent(s.Context(), id, s.now))
	}
	s.wantQueued(1)
	for _, event := range []store.Event{first, second, third, silent} {
		s.addEvent(event, false)
	}
	s.wantQueued(1)
	s.wantClaim(s.now.Add(3*time.Hour), 10, claimed(first, 3))
}

// eventsReopened: queued events and the known ids survive a restart. Events
// that were claimed may be due at once after it.
func (s *suite) eventsReopened() {
	first, second, done, silent := s.event("evt_1", -30), s.event("evt_2", -20), s.event("evt_3", -10), s.event("evt_4", -30)
	silent.Queued = false
	for _, event := range []store.Event{second, done, first, silent} {
		s.addEvent(event, true)
	}
	s.must(s.store.RemoveEvent(s.Context(), done.ID))
	s.restart()
	s.wantQueued(2)
	for _, event := range []store.Event{first, second, done, silent} {
		s.addEvent(event, false)
	}
	s.wantClaim(s.now, 10, claimed(first, 1), claimed(second, 1))
	s.must(s.store.RemoveEvent(s.Context(), first.ID))
	s.restart()
	s.wantQueued(1)
	list, err := s.store.ClaimEvents(s.Context(), s.now.Add(time.Hour), time.Minute, 10)
	if err != nil || len(list) != 1 || list[0].ID != second.ID {
		s.Errorf("got %+v, %v, want %s", list, err, second.ID)
	}
}

// eventsFull: one event more than MaxQueued drops the oldest one. Its id stays
// known. A store whose bound a test can set has a smaller one without Long.
func (s *suite) eventsFull() {
	const callers = 128
	most := store.MaxQueued
	if bounded, ok := s.store.(interface{ SetMaxQueued(most int) (was int) }); ok && !Long() {
		most = 500
		if was := bounded.SetMaxQueued(most); was != store.MaxQueued {
			s.Errorf("at most %d events wait, want %d", was, store.MaxQueued)
		}
	}
	s.together(callers, func(caller int) error {
		for i := caller; i < most; i += callers {
			event := s.event(fmt.Sprint("evt_", i), i-most)
			if isNew, dropped, err := s.store.AddEvent(s.Context(), event); err != nil || !isNew || dropped != 0 {
				return fmt.Errorf("adding event %d: got %v, %d, %w", i, isNew, dropped, err)
			}
		}
		return nil
	})
	s.wantQueued(most)
	for i := range 3 {
		isNew, dropped, err := s.store.AddEvent(s.Context(), s.event(fmt.Sprint("evt_late_", i), 0))
		if err != nil || !isNew || dropped != 1 {
			s.Errorf("adding to a full queue: got %v, %d, %v, want true, 1", isNew, dropped, err)
		}
	}
	s.wantQueued(most)
	s.addEvent(s.event("evt_1", 1), false)
	s.wantClaim(s.now, 1, claimed(s.event("evt_3", 3-most), 1))
}

// eventsUnderConcurrency: of several gates, one adds an event, and one claims
// it.
func (s *suite) eventsUnderConcurrency() {
	const callers, events = 8, 50
	var mu sync.Mutex
	added, got := map[string]int{}, map[string]int{}
	note := func(m map[string]int, id string) {
		mu.Lock()
		defer mu.Unlock()
		m[id]++
	}
	s.together(callers, func(int) error {
		for i := range events {
			event := s.event(fmt.Sprint("evt_", i), -i)
			isNew, _, err := s.store.AddEvent(s.Context(), event)
			if err != nil {
				return err
			}
			if isNew {
				note(added, event.ID)
			}
			list, err := s.store.ClaimEvents(s.Context(), s.now, time.Hour, 3)
			if err != nil {
				return err
			}
			for _, event := range list {
				note(got, event.ID)
			}
		}
		return nil
	})
	for i := range events {
		if id := fmt.Sprint("evt_", i); added[id] != 1 || got[id] != 1 {
			s.Errorf("%s was added %d times and claimed %d times", id, added[id], got[id])
		}
	}
}
