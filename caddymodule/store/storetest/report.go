package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// refusals: calls add up, and pages have all rows in order.
func (s *suite) refusals() {
	rows := []store.Refused{
		{Day: s.today - 1, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 2},
		{Day: s.today, Endpoint: "", Code: "not_found", Calls: 7},
		{Day: s.today, Endpoint: "convert", Code: "invalid_token", Calls: 1},
		{Day: s.today, Account: "acc_1", Endpoint: "convert", Code: "not_entitled", Calls: 1},
		{Day: s.today, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 3},
		{Day: s.today, Account: "acc_1", Endpoint: "rates", Code: "quota_exceeded", Calls: 1},
		{Day: s.today, Account: "acc_10", Endpoint: "convert", Code: "quota_exceeded", Calls: 1},
	}
	s.must(s.store.AddRefused(s.Context(), nil))
	for range 2 {
		mixed := slices.Clone(rows)
		slices.Reverse(mixed)
		s.must(s.store.AddRefused(s.Context(), mixed))
	}
	for i := range rows {
		rows[i].Calls *= 2
	}
	s.restart()
	list := func(account string, first, last int32, limit int) (all []store.Refused) {
		var after store.Refused
		for {
			page, err := s.store.ListRefused(s.Context(), account, s.today+dayShift(first), s.today+dayShift(last), after, limit)
			s.must(err)
			if len(page) == 0 {
				return all
			}
			all = append(all, page...)
			after = page[len(page)-1]
		}
	}
	want := func(what string, got, want []store.Refused) {
		s.Helper()
		if !same(got, want) {
			s.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
		}
	}
	for _, limit := range []int{1, 2, 100} {
		want("all", list("", -5, 0, limit), rows)
		want("an account", list("acc_1", -5, 0, limit), []store.Refused{rows[0], rows[3], rows[4], rows[5]})
	}
	want("today", list("", 0, 0, 100), rows[1:])
	want("yesterday", list("", -1, -1, 100), rows[:1])
	want("another account", list("acc", -5, 0, 100), nil)
}

// audit: entries are in the order in which they were added, also if the clock
// is set back, and pages miss none.
func (s *suite) audit() {
	var want []store.Entry
	add := func(n int, at time.Time, account string) {
		entries := make([]store.Entry, n)
		for i := range entries {
			entries[i] = store.Entry{At: at, ActorKind: "person", ActorID: "ada", Action: "key.create", Account: account, Target: fmt.Sprint(len(want) + i)}
		}
		entries[0].Before, entries[0].After = json.RawMessage(`{"plan":"free"}`), json.RawMessage(`{"plan":"starter"}`)
		s.must(s.store.AddEntries(s.Context(), entries))
		want = append(want, entries...)
	}
	add(3, s.now.Add(-time.Hour), "acc_1")
	add(1, s.now, "acc_2")
	s.restart()
	add(2, s.now.Add(-time.Minute), "acc_1") // the clock was set back
	add(1, s.now.Add(time.Millisecond), "acc_1")
	for i := 1; i < len(want); i++ {
		if want[i].ID.Compare(want[i-1].ID) <= 0 {
			s.Errorf("entry %d has the id %s, the one before %s", i, want[i].ID, want[i-1].ID)
		}
	}
	check := func(what, account string, since time.Time, limit int) {
		s.Helper()
		var got []store.Entry
		for after := (store.EntryID{}); ; {
			page, err := s.store.ListEntries(s.Context(), account, since, after, limit)
			s.must(err)
			if len(page) == 0 {
				break
			}
			got, after = append(got, page...), page[len(page)-1].ID
		}
		wanted := slices.DeleteFunc(slices.Clone(want), func(e store.Entry) bool {
			return account != "" && e.Account != account || e.At.Before(since)
		})
		if !same(got, wanted) {
			s.Errorf("%s:\n got %+v\nwant %+v", what, got, wanted)
		}
	}
	for _, limit := range []int{1, 2, 100} {
		check("all", "", time.Time{}, limit)
		check("an account", "acc_1", time.Time{}, limit)
		check("since", "", s.now.Add(-time.Minute), limit)
		check("since the last", "", s.now, limit)
	}
}

func (s *suite) event(n int) store.Event {
	return store.Event{
		ID: fmt.Sprintf("evt_%d", n), Type: "tollgate.quota_warning", At: s.now.Add(time.Duration(n) * time.Second),
		Body: []byte(fmt.Sprintf(`{"n":%d}`, n)), Queued: true, Known: s.now.Add(time.Hour),
	}
}

func (s *suite) add(event store.Event, wantNew bool) {
	s.Helper()
	if isNew, _, err := s.store.AddEvent(s.Context(), event); err != nil || isNew != wantNew {
		s.Errorf("adding %s: got new %t, %v, want %t", event.ID, isNew, err, wantNew)
	}
}

// claim claims events and checks which ones it gets.
func (s *suite) claim(at time.Time, limit int, want ...int) {
	s.Helper()
	got, err := s.store.ClaimEvents(s.Context(), at, time.Minute, limit)
	s.must(err)
	var ids, wanted []string
	for _, e := range got {
		ids = append(ids, e.ID)
		if e.Type != "tollgate.quota_warning" || !strings.HasPrefix(string(e.Body), `{"n":`) || !e.Due.Equal(at.Add(time.Minute)) || e.Attempts < 1 {
			s.Errorf("claimed %+v", e)
		}
	}
	for _, n := range want {
		wanted = append(wanted, s.event(n).ID)
	}
	if !same(ids, wanted) {
		s.Errorf("claimed %q, want %q", ids, wanted)
	}
}

// events are claimed until they are removed, and added once.
func (s *suite) events() {
	later := s.now.Add(time.Minute)
	for _, n := range []int{3, 1, 2} {
		s.add(s.event(n), true)
		s.add(s.event(n), false)
	}
	silent := s.event(4)
	silent.Queued = false
	s.add(silent, true)
	s.claim(s.now, 10) // none has happened yet
	s.restart()
	s.add(s.event(2), false)
	s.add(s.event(4), false)
	s.claim(later, 2, 1, 2)
	s.claim(later, 10, 3)
	s.claim(later, 10)
	s.must(s.store.RetryEvent(s.Context(), "evt_1", later.Add(time.Second)))
	s.must(s.store.RemoveEvent(s.Context(), "evt_2"))
	s.must(s.store.RemoveEvent(s.Context(), "evt_2"))
	s.must(s.store.RetryEvent(s.Context(), "evt_2", later))
	s.claim(later, 10)
	s.claim(later.Add(time.Second), 10, 1)
	s.add(s.event(2), false)
	if n, err := s.store.QueuedEvents(s.Context()); err != nil || n != 2 {
		s.Errorf("%d events are queued, %v, want 2", n, err)
	}
	s.claim(later.Add(time.Hour), 10, 1, 3)
}

// eventLimit: the oldest event is dropped when too many wait.
func (s *suite) eventLimit() {
	const more = 3
	dropped := 0
	for n := range store.MaxQueued + more {
		event := s.event(n)
		isNew, lost, err := s.store.AddEvent(s.Context(), event)
		if err != nil || !isNew {
			s.Fatalf("adding event %d: %t, %v", n, isNew, err)
		}
		dropped += lost
	}
	if n, err := s.store.QueuedEvents(s.Context()); err != nil || n != store.MaxQueued || dropped != more {
		s.Errorf("%d events are queued and %d were dropped, %v", n, dropped, err)
	}
	s.claim(s.now.Add(24*time.Hour), 2, more, more+1)
	s.add(s.event(0), false)
}

// claimUnderConcurrency: no event is claimed twice at a time.
func (s *suite) claimUnderConcurrency() {
	const events = 50
	for n := range events {
		s.add(s.event(n), true)
	}
	claimed := make(chan string, 2*events)
	s.together(8, func(int) error {
		list, err := s.store.ClaimEvents(s.Context(), s.now.Add(time.Hour), time.Minute, 10)
		for _, e := range list {
			claimed <- e.ID
		}
		return err
	})
	close(claimed)
	seen := map[string]bool{}
	for id := range claimed {
		if seen[id] {
			s.Errorf("%s was claimed twice", id)
		}
		seen[id] = true
	}
	if len(seen) != events {
		s.Errorf("%d events were claimed, want %d", len(seen), events)
	}
}
