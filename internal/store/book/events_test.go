package book_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

var events = book.Space{Name: "events"}

// event returns a queued event some seconds after a time of today.
func event(id string, seconds int) store.Event {
	return store.Event{
		ID: id, Type: "tollgate.quota_exceeded", At: today.Add(time.Duration(seconds) * time.Second), Body: []byte(`{}`),
		Queued: true, Known: today.Add(48 * time.Hour),
	}
}

func add(t *testing.T, b *book.Book, list ...store.Event) {
	t.Helper()
	for _, e := range list {
		if isNew, dropped, err := b.AddEvent(t.Context(), e); err != nil || !isNew || dropped != 0 {
			t.Errorf("adding %s: got %v, %d, %v", e.ID, isNew, dropped, err)
		}
	}
}

// wantClaim claims events, and checks that these are due.
func wantClaim(t *testing.T, b *book.Book, at time.Time, limit int, want ...string) {
	t.Helper()
	list, err := b.ClaimEvents(t.Context(), at, time.Minute, limit)
	got := []string{}
	for _, e := range list {
		got = append(got, e.ID)
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("claimed %q, %v, want %q", got, err, want)
	}
}

func wantQueued(t *testing.T, b *book.Book, want int) {
	t.Helper()
	if got, err := b.QueuedEvents(t.Context()); err != nil || got != want {
		t.Errorf("got %d queued events, %v, want %d", got, err, want)
	}
}

// TestEventsOfLog: each entry makes its event once, whichever gate follows the
// log.
func TestEventsOfLog(t *testing.T) {
	t.Parallel()
	b, w := open(t)
	record := func(action string) {
		t.Helper()
		err := b.ChangeOne(t.Context(), now, "acc_1", func(a *book.Account) error {
			a.Exists = true
			a.Record(store.Entry{At: today, Action: action})
			return nil
		})
		wantError(t, "recording "+action, err, nil)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	follow := func(b *book.Book) (added int, more bool) {
		t.Helper()
		list, dropped, more, err := b.FollowLog(t.Context(), today, func(e store.Entry) *store.Event {
			if e.Action == "silent" {
				return nil
			}
			made := event("evt_"+e.Action, 0)
			return &made
		})
		if err != nil || dropped != 0 {
			t.Errorf("got %d dropped, %v", dropped, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range list {
			seen[e.ID]++
		}
		return len(list), more
	}
	if added, more := follow(b); added > 0 || more {
		t.Errorf("an empty log has %d events, more %v", added, more)
	}
	record("silent")
	record("a")
	record("a") // the id of its event is known
	for _, want := range []int{1, 0} {
		if added, more := follow(b); added != want || more {
			t.Errorf("got %d events, more %v, want %d", added, more, want)
		}
	}
	const entries = 250
	for i := range entries {
		record(fmt.Sprint(i))
	}
	var gates sync.WaitGroup
	for range 3 {
		gates.Go(func() {
			b := gate(t, w)
			for more := true; more; {
				_, more = follow(b)
			}
		})
	}
	gates.Wait()
	wantQueued(t, b, entries+1)
	if len(seen) != entries+1 {
		t.Errorf("got events of %d entries, want %d", len(seen), entries+1)
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was added %d times", id, times)
		}
	}

	// Another gate follows further meanwhile.
	record("silent")
	passed := 0
	var silent func(e store.Entry) *store.Event
	silent = func(store.Entry) *store.Event {
		if passed++; passed == 1 {
			record("silent")
			_, _, _, err := gate(t, w).FollowLog(t.Context(), today, silent)
			wantError(t, "following", err, nil)
		}
		return nil
	}
	for range 2 {
		_, _, _, err := b.FollowLog(t.Context(), today, silent)
		wantError(t, "following", err, nil)
	}
	if passed != 3 {
		t.Errorf("two entries were passed %d times, want once, and the first again", passed)
	}
	if added, more := follow(gate(t, w)); added > 0 || more {
		t.Errorf("a new gate finds %d events, more %v", added, more)
	}
}

// TestLongQueued: an event that is queued for longer than its id has to be
// known can still be changed and removed, and its id is known until then.
func TestLongQueued(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	e := event("evt_1", 0)
	e.Known = today.Add(time.Minute)
	add(t, b, e)
	if isNew, _, err := b.AddEvent(t.Context(), e); isNew || err != nil {
		t.Errorf("adding it again: got %v, %v", isNew, err)
	}
	at := today.Add(time.Hour)
	wantClaim(t, b, at, 9, "evt_1")
	wantError(t, "retrying", b.RetryEvent(t.Context(), "evt_1", at), nil)
	wantClaim(t, b, at, 9, "evt_1")
	wantError(t, "removing", b.RemoveEvent(t.Context(), "evt_1"), nil)
	wantQueued(t, b, 0)
	wantClaim(t, b, at.Add(time.Hour), 9)
}

// TestRowWithoutEvent: a row of an event that does not exist does not stop the
// others.
func TestRowWithoutEvent(t *testing.T) {
	t.Parallel()
	b, w := open(t)
	add(t, b, event("evt_1", 1), event("evt_2", 2))
	found, err := b.Scan(t.Context(), 9, book.Range{Space: events, From: "q ", To: "q!"})
	wantError(t, "reading", err, nil)
	lost := book.Batch{Space: events, Writes: []book.Write{{Row: book.Row{Key: found[0][0].Key}}}}
	wantError(t, "deleting a row", errors.Join(w.Engine.Commit(t.Context(), lost)...), nil)
	at := today.Add(time.Hour)
	wantClaim(t, b, at, 1)
	wantClaim(t, b, at, 1, "evt_2")
}

// TestClaimedMeanwhile: an event that another gate claims or removes while this
// one reads it is not claimed again.
func TestClaimedMeanwhile(t *testing.T) {
	t.Parallel()
	b, w := open(t)
	other := gate(t, w.Engine)
	add(t, b, event("evt_1", 1), event("evt_2", 2), event("evt_3", 3))
	at := today.Add(time.Hour)
	w.afterScan = func() { wantClaim(t, other, at, 1, "evt_1") }
	wantClaim(t, b, at, 1, "evt_2")
	at = at.Add(time.Minute)
	w.afterScan = func() { wantError(t, "removing", other.RemoveEvent(t.Context(), "evt_2"), nil) }
	wantClaim(t, b, at, 9, "evt_1", "evt_3")
	wantQueued(t, b, 2)

	// A full queue drops an event that another gate claims.
	setNumber(t, w, store.MaxQueued)
	w.afterScan = func() { wantClaim(t, other, at.Add(time.Hour), 1, "evt_1") }
	if isNew, dropped, err := b.AddEvent(t.Context(), event("evt_4", 4)); err != nil || !isNew || dropped != 1 {
		t.Errorf("adding to a full queue: got %v, %d, %v", isNew, dropped, err)
	}
	due, err := b.Scan(t.Context(), 9, book.Range{Space: events, From: "d ", To: "d!"})
	if err != nil || len(due[0]) != 2 {
		t.Errorf("got %d rows of due events, %v, want those of evt_3 and evt_4", len(due[0]), err)
	}
}

// setNumber writes how many events are queued.
func setNumber(t *testing.T, w *watched, number int) {
	t.Helper()
	var p book.Piece
	text := fmt.Sprintf(`{"row":{"space":"events","key":"n","value":%d}}`, number)
	wantError(t, "making a row", p.UnmarshalJSON([]byte(text)), nil)
	write := book.Batch{Space: events, Writes: []book.Write{{Row: *p.Row}}}
	wantError(t, "writing it", errors.Join(w.Engine.Commit(t.Context(), write)...), nil)
}

// TestPollOfLeasedEvents: a gate that asks for due events reads none of those
// that are due later.
func TestPollOfLeasedEvents(t *testing.T) {
	t.Parallel()
	b, w := open(t)
	for i := range 300 {
		add(t, b, event(fmt.Sprint("evt_", i), i))
	}
	at := today.Add(time.Hour)
	for range 3 {
		if _, err := b.ClaimEvents(t.Context(), at, time.Minute, 200); err != nil {
			t.Error(err)
		}
	}
	w.scanned.Store(0)
	if wantClaim(t, b, at, 200); w.scanned.Load() != 0 {
		t.Errorf("a poll reads %d rows", w.scanned.Load())
	}
	wantQueued(t, b, 300)
	wantClaim(t, b, at.Add(time.Minute), 1, "evt_0")
}

// TestEntries: the audit log is read in parts, by account and from both ends.
func TestEntries(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	for i := range 350 {
		err := b.ChangeOne(t.Context(), now, fmt.Sprint("acc_", i%100), func(a *book.Account) error {
			a.Exists = true
			a.Record(store.Entry{At: today.Add(time.Duration(i) * time.Second), Target: fmt.Sprint(i)})
			return nil
		})
		wantError(t, "recording", err, nil)
	}
	targets := func(list []store.Entry, err error) (got []string) {
		wantError(t, "reading", err, nil)
		for _, e := range list {
			got = append(got, e.Target)
		}
		return got
	}
	ctx, all := t.Context(), store.EntryID{}
	for want, got := range map[string][]string{
		"[7 107 207 307]": targets(b.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_7"}}, all, 9)),
		"[7 107]":         targets(b.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_7"}}, all, 2)),
		"[307 207]":       targets(b.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_7"}, NewestFirst: true}, all, 2)),
		"[349 348]":       targets(b.ListEntries(ctx, book.EntryFilter{NewestFirst: true}, all, 2)),
		"[348 349]":       targets(b.ListEntries(ctx, book.EntryFilter{Since: today.Add(348 * time.Second)}, all, 9)),
		"[]":              targets(b.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_unknown"}}, all, 9)),
	} {
		if fmt.Sprint(got) != want {
			t.Errorf("got entries %q, want %s", got, want)
		}
	}
	if list, err := b.ListEntries(ctx, book.EntryFilter{}, all, 1000); err != nil || len(list) != 350 {
		t.Errorf("got %d entries, %v", len(list), err)
	}
}

// TestEvents: an event is added once, is claimed in the order in which events
// happened, is due again after the lease or when a retry says so, and is known
// after it was removed.
func TestEvents(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	first, second, third, silent := event("evt_1", 10), event("evt_2", 20), event("evt_3", 30), event("evt_4", 10)
	silent.Queued = false
	add(t, b, second, third, first, silent)
	known := func() {
		t.Helper()
		for _, e := range []store.Event{first, second, third, silent} {
			if isNew, dropped, err := b.AddEvent(t.Context(), e); isNew || dropped != 0 || err != nil {
				t.Errorf("adding %s again: got %v, %d, %v", e.ID, isNew, dropped, err)
			}
		}
	}
	known()
	wantQueued(t, b, 3)
	at := today.Add(time.Minute)
	wantClaim(t, b, today, 9)
	wantClaim(t, b, first.At.Add(-1), 9)
	list, err := b.ClaimEvents(t.Context(), first.At, time.Minute, 9)
	want := first
	want.Due, want.Attempts = first.At.Add(time.Minute), 1
	if err != nil || len(list) != 1 || fmt.Sprintf("%+v", list[0]) != fmt.Sprintf("%+v", want) {
		t.Errorf("claimed %+v, %v, want %+v", list, err, want)
	}
	wantClaim(t, b, at, 1, "evt_2")
	wantClaim(t, b, at, 9, "evt_3")
	wantClaim(t, b, at, 9)

	wantError(t, "retrying", b.RetryEvent(t.Context(), "evt_1", today.Add(time.Hour)), nil)
	wantError(t, "removing", b.RemoveEvent(t.Context(), "evt_3"), nil)
	wantClaim(t, b, at.Add(time.Minute-1), 9)
	wantClaim(t, b, at.Add(time.Minute), 9, "evt_2")
	wantClaim(t, b, today.Add(time.Hour), 1, "evt_1")

	// What is not queued stays out of the queue.
	for _, id := range []string{"evt_2", "evt_2", "unknown", "evt_3", "evt_4"} {
		wantError(t, "removing "+id, b.RemoveEvent(t.Context(), id), nil)
		wantError(t, "retrying "+id, b.RetryEvent(t.Context(), id, at), nil)
	}
	known()
	wantQueued(t, b, 1)
	list, err = b.ClaimEvents(t.Context(), today.Add(3*time.Hour), time.Minute, 9)
	if err != nil || len(list) != 1 || list[0].ID != "evt_1" || list[0].Attempts != 3 {
		t.Errorf("claimed %+v, %v, want the first event for the third time", list, err)
	}
}

// TestFullEvents: one event more than store.MaxQueued drops the oldest. Its id
// stays known.
func TestFullEvents(t *testing.T) {
	t.Parallel()
	b, w := open(t)
	add(t, b, event("evt_first", -1), event("evt_second", 0), event("evt_third", 1), event("evt_fourth", 2))

	// The number says that the queue is full.
	setNumber(t, w, store.MaxQueued)
	for i := range 3 {
		isNew, dropped, err := b.AddEvent(t.Context(), event(fmt.Sprint("evt_late_", i), 500+i))
		if err != nil || !isNew || dropped != 1 {
			t.Errorf("adding to a full queue: got %v, %d, %v", isNew, dropped, err)
		}
	}
	wantQueued(t, b, store.MaxQueued)
	if isNew, _, err := b.AddEvent(t.Context(), event("evt_first", 0)); isNew || err != nil {
		t.Errorf("adding a dropped event: got %v, %v", isNew, err)
	}
	wantClaim(t, b, today.Add(time.Hour), 1, "evt_fourth")
}

// TestEventsOfGates: of several gates, one adds an event, and one claims it.
func TestEventsOfGates(t *testing.T) {
	t.Parallel()
	_, w := open(t)
	var mu sync.Mutex
	added, claimed := map[string]int{}, map[string]int{}
	var gates sync.WaitGroup
	for range 4 {
		b := gate(t, w)
		gates.Go(func() {
			for i := range 40 {
				e := event(fmt.Sprint("evt_", i), i)
				isNew, _, err := b.AddEvent(t.Context(), e)
				list, failed := b.ClaimEvents(t.Context(), today.Add(time.Hour), time.Hour, 3)
				if err != nil || failed != nil {
					t.Error(err, failed)
				}
				mu.Lock()
				if isNew {
					added[e.ID]++
				}
				for _, e := range list {
					claimed[e.ID]++
				}
				mu.Unlock()
			}
		})
	}
	gates.Wait()
	for i := range 40 {
		if id := fmt.Sprint("evt_", i); added[id] != 1 || claimed[id] != 1 {
			t.Errorf("%s was added %d times and claimed %d times", id, added[id], claimed[id])
		}
	}
}

// TestOldestEvent: the oldest event is the one that happened first, whenever it
// is due.
func TestOldestEvent(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	want := func(seconds int) {
		t.Helper()
		at := time.Time{}
		if seconds > 0 {
			at = today.Add(time.Duration(seconds) * time.Second)
		}
		if got, err := b.OldestEvent(t.Context()); err != nil || !got.Equal(at) {
			t.Errorf("got %v, %v, want %v", got, err, at)
		}
	}
	want(0)
	add(t, b, event("evt_2", 2), event("evt_1", 1))
	wantError(t, "retrying", b.RetryEvent(t.Context(), "evt_1", today.Add(time.Hour)), nil)
	want(1)
	wantError(t, "removing", b.RemoveEvent(t.Context(), "evt_1"), nil)
	want(2)
	wantError(t, "removing", b.RemoveEvent(t.Context(), "evt_2"), nil)
	want(0)
}
