package redisstore_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// TestRefusedPages: pages have the order of the rows, and none twice.
func TestRefusedPages(t *testing.T) {
	t.Parallel()
	s := openStore(t, redisstore.Options{URL: redistest.Start(t).URL()})
	day := today()
	var want []store.Refused
	for _, at := range []calendar.Day{-400, -2, 0} {
		for _, account := range []string{"", "a", "a-b", "b"} {
			for _, endpoint := range []string{"", "convert"} {
				for _, code := range []string{"quota_exceeded", "rate_limited"} {
					want = append(want, store.Refused{Day: day + at, Account: account, Endpoint: endpoint, Code: code, Calls: 2})
				}
			}
		}
	}
	half := slices.Clone(want)
	for i := range half {
		half[i].Calls = 1
	}
	check(t, s.AddRefused(t.Context(), half))
	check(t, s.AddRefused(t.Context(), half))
	check(t, s.AddRefused(t.Context(), []store.Refused{{Day: day - 402, Code: "too_old", Calls: 1}}))
	for _, account := range []string{"", "a", "b", "none"} {
		expected := slices.DeleteFunc(slices.Clone(want), func(r store.Refused) bool { return account != "" && r.Account != account })
		for _, limit := range []int{1, 3, 100} {
			var got []store.Refused
			for after := (store.Refused{}); ; {
				page, err := s.ListRefused(t.Context(), account, day-1000, day+1000, after, limit)
				check(t, err)
				if len(page) == 0 {
					break
				}
				got = append(got, page...)
				after = page[len(page)-1]
			}
			if !slices.Equal(got, expected) {
				t.Errorf("account %q by %d: got %v, want %v", account, limit, got, expected)
			}
		}
	}
	page, err := s.ListRefused(t.Context(), "a", day, day, store.Refused{Day: day, Account: "b"}, 9)
	if err != nil || len(page) > 0 {
		t.Errorf("the rows of an account after those of the next: got %v, %v", page, err)
	}
}

// TestEntriesOfGates: entries that two gates add have distinct ids in the order
// in which they are listed, also if a clock goes back.
func TestEntriesOfGates(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redisstore.Options{URL: redistest.Start(t).URL()})
	now := time.Now().UTC().Truncate(time.Millisecond)
	const each = 300
	var adding sync.WaitGroup
	for i, gate := range f.gates[:2] {
		adding.Go(func() {
			for n := range each {
				entry := store.Entry{At: now.Add(-time.Duration(n) * time.Second), Action: "key.create", Account: fmt.Sprintf("acc_%d", i), After: []byte(`{"a": "<"}`)}
				if err := gate.AddEntries(t.Context(), []store.Entry{entry}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	adding.Wait()
	all, err := f.gates[2].ListEntries(t.Context(), "", time.Time{}, store.EntryID{}, 3*each)
	check(t, err)
	if len(all) != 2*each || !slices.IsSortedFunc(all, func(a, b store.Entry) int { return a.ID.Compare(b.ID) }) {
		t.Errorf("got %d entries, want %d in order", len(all), 2*each)
	}
	one, err := f.gates[2].ListEntries(t.Context(), "acc_1", now.Add(-9*time.Second), store.EntryID{}, 3*each)
	check(t, err)
	if len(one) != 10 || string(one[0].After) != `{"a": "<"}` {
		t.Errorf("entries of one account since a time: got %d, want 10: %+v", len(one), one)
	}
	rest, err := f.gates[2].ListEntries(t.Context(), "", time.Time{}, all[9].ID, 5)
	if err != nil || len(rest) != 5 || rest[0].ID != all[10].ID {
		t.Errorf("entries after one: got %+v, %v", rest, err)
	}
}

// TestClaimsOfGates: gates that claim at the same time get each event once.
func TestClaimsOfGates(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redisstore.Options{URL: redistest.Start(t).URL(), Timeout: 10 * time.Second})
	now := time.Now()
	const events = 250
	for i := range events {
		addEvent(t, f.gates[0], event(i, now.Add(-time.Hour+time.Duration(i)*time.Second)))
	}
	var mu sync.Mutex
	claims := map[string]int{}
	var claiming sync.WaitGroup
	for _, gate := range f.gates {
		claiming.Go(func() {
			for {
				list, err := gate.ClaimEvents(t.Context(), now, time.Minute, 7)
				if err != nil {
					t.Error(err)
				}
				if len(list) == 0 {
					return
				}
				mu.Lock()
				for _, e := range list {
					claims[e.ID] += e.Attempts
				}
				mu.Unlock()
			}
		})
	}
	claiming.Wait()
	if len(claims) != events {
		t.Errorf("claimed %d events, want %d", len(claims), events)
	}
	for id, n := range claims {
		if n != 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
	}
	again, err := f.gates[1].ClaimEvents(t.Context(), now.Add(time.Minute), time.Minute, 2)
	check(t, err)
	if len(again) != 2 || again[0].ID != "event_0" || again[0].Attempts != 2 || string(again[0].Body) != `{"n": 0}` {
		t.Errorf("after the lease: got %+v, want the two that happened first", again)
	}
}

func event(i int, at time.Time) store.Event {
	return store.Event{
		ID: fmt.Sprintf("event_%d", i), Type: "tollgate.quota_exceeded", At: at, Body: fmt.Appendf(nil, `{"n": %d}`, i),
		Queued: true, Known: at.Add(24 * time.Hour),
	}
}

func addEvent(t *testing.T, s *redisstore.Store, e store.Event) (dropped int) {
	t.Helper()
	isNew, dropped, err := s.AddEvent(t.Context(), e)
	check(t, err)
	if !isNew {
		t.Errorf("%s is not new", e.ID)
	}
	return dropped
}

// TestKnownEventsExpire: the set of known ids lives until the last of them is
// forgotten, also after a restore. The queue has no end.
func TestKnownEventsExpire(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := redisstore.Options{URL: server.URL(), Prefix: "from", Timeout: 10 * time.Second}
	s := openStore(t, o)
	end := time.Now().Add(48 * time.Hour).Truncate(24 * time.Hour).Add(time.Millisecond)
	for i, known := range []time.Time{end.Add(-time.Hour), end, end.Add(-2 * time.Hour)} {
		e := event(i, time.Now())
		e.Known = known
		addEvent(t, s, e)
	}
	list := storetest.Items(t, s)
	slices.SortFunc(list, func(a, b store.Item) int { return b.Event.Known.Compare(a.Event.Known) })
	o.Prefix = "to"
	check(t, redisstore.Restore(t.Context(), o, all(list, nil)))
	for _, prefix := range []string{"from", "to"} {
		for key, want := range map[string]int64{"k": end.Unix() + 1, "b": -1, "d": -1, "t": -1} {
			if got, err := server.Do("EXPIRETIME", prefix+":events:{events}:"+key); err != nil || got != want {
				t.Errorf("%s of %s expires at %v (%v), want %d", key, prefix, got, err, want)
			}
		}
	}
}

// TestQueueIsBounded: one event above the bound drops the one that happened
// first, whose id stays known.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	s := openStore(t, redisstore.Options{URL: redistest.Start(t).URL(), Timeout: 10 * time.Second})
	now := time.Now()
	var adding sync.WaitGroup
	const adders = 20
	for first := range adders {
		adding.Go(func() {
			for i := first; i < store.MaxQueued; i += adders {
				if _, dropped, err := s.AddEvent(t.Context(), event(i, now.Add(time.Duration(i)*time.Millisecond))); err != nil || dropped > 0 {
					t.Errorf("event %d: dropped %d, %v", i, dropped, err)
				}
			}
		})
	}
	adding.Wait()
	if dropped := addEvent(t, s, event(store.MaxQueued, now.Add(time.Hour))); dropped != 1 {
		t.Errorf("dropped %d events, want 1", dropped)
	}
	if n, err := s.QueuedEvents(t.Context()); err != nil || n != store.MaxQueued {
		t.Errorf("%d events wait, %v, want %d", n, err, store.MaxQueued)
	}
	if isNew, _, err := s.AddEvent(t.Context(), event(0, now)); err != nil || isNew {
		t.Errorf("a dropped event: new %t, %v", isNew, err)
	}
	claimed, err := s.ClaimEvents(t.Context(), now.Add(2*time.Hour), time.Minute, 1)
	check(t, err)
	if len(claimed) != 1 || claimed[0].ID != "event_1" {
		t.Errorf("claimed %+v, want the first that was not dropped", claimed)
	}
	check(t, s.RemoveEvent(t.Context(), "event_1"))
	check(t, s.RetryEvent(t.Context(), "event_1", now))
	if n, err := s.QueuedEvents(t.Context()); err != nil || n != store.MaxQueued-1 {
		t.Errorf("%d events wait after one was removed, %v, want %d", n, err, store.MaxQueued-1)
	}
}

// TestCommitted: each call that the server answers is reported.
func TestCommitted(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	reported := 0
	s := openStore(t, redisstore.Options{URL: redistest.Start(t).URL(), Committed: func(took time.Duration, calls int) {
		mu.Lock()
		defer mu.Unlock()
		reported += calls
		if took <= 0 {
			t.Errorf("a call took %v", took)
		}
	}})
	newAccount(t, s, account)
	for range 3 {
		check(t, takeOne(t, s))
	}
	mu.Lock()
	defer mu.Unlock()
	if reported != 3 {
		t.Errorf("%d calls were reported, want 3", reported)
	}
}
