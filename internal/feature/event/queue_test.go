package event_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// today is a time of events: engines delete old rows by the machine's clock.
var today = time.Now().UTC().Add(-2 * time.Hour)

// anEvent returns a queued event some seconds after today.
func anEvent(id string, seconds int) store.Event {
	return store.Event{
		ID: id, Type: event.QuotaExceeded, At: today.Add(time.Duration(seconds) * time.Second), Body: []byte(`{}`),
		Queued: true, Known: today.Add(48 * time.Hour),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// TestEventsOfLog: each entry makes its event once, whichever gate follows the
// log.
func TestEventsOfLog(t *testing.T) {
	t.Parallel()
	engine := memstore.New()
	b := over(t, engine)
	record := func(action string) {
		t.Helper()
		err := b.ChangeOne(t.Context(), today, "acc_1", func(a *book.Account) error {
			a.Exists = true
			a.Record(store.Entry{At: today, Action: action})
			return nil
		})
		must(t, err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	follow := func(b *event.Queue) (added int, more bool) {
		t.Helper()
		list, more, err := b.Follow(t.Context(), today, func(e store.Entry) []store.Event {
			if e.Action == "silent" {
				return nil
			}
			return []store.Event{anEvent("evt_"+e.Action, 0)}
		})
		must(t, err)
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
	for _, want := range []int{1, 0} { // then the id of the event is known
		record("a")
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
			b := over(t, engine)
			for more := true; more; {
				_, more = follow(b)
			}
		})
	}
	gates.Wait()
	if list := queued(t, b); len(list) != entries+1 {
		t.Errorf("got %d queued events, want %d", len(list), entries+1)
	}
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
	var silent func(e store.Entry) []store.Event
	silent = func(store.Entry) []store.Event {
		if passed++; passed == 1 {
			record("silent")
			_, _, err := over(t, engine).Follow(t.Context(), today, silent)
			must(t, err)
		}
		return nil
	}
	for range 2 {
		_, _, err := b.Follow(t.Context(), today, silent)
		must(t, err)
	}
	if passed != 3 {
		t.Errorf("two entries were passed %d times, want once, and the first again", passed)
	}
	if added, more := follow(over(t, engine)); added > 0 || more {
		t.Errorf("a new gate finds %d events, more %v", added, more)
	}
}

// TestEventsOfGates: of several gates, one adds an event. Later ones are behind it.
func TestEventsOfGates(t *testing.T) {
	t.Parallel()
	engine := memstore.New()
	var mu sync.Mutex
	added := map[string]int{}
	var gates sync.WaitGroup
	for range 4 {
		b := over(t, engine)
		gates.Go(func() {
			for i := range 40 {
				e := anEvent(fmt.Sprint("evt_", i), -i)
				isNew, err := b.Add(t.Context(), e)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if isNew {
					added[e.ID]++
				}
				mu.Unlock()
			}
		})
	}
	gates.Wait()
	list := queued(t, over(t, engine))
	for i := range 40 {
		if id := fmt.Sprint("evt_", i); added[id] != 1 || len(list) != 40 || list[i].ID != id {
			t.Errorf("%s was added %d times", id, added[id])
		}
	}
}

// meanwhile is an engine on which something else happens before a commit.
type meanwhile struct {
	book.Engine
	do func()
}

func (m *meanwhile) Commit(ctx context.Context, batches ...book.Batch) []error {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Engine.Commit(ctx, batches...)
}

// TestEventAddedMeanwhile: an event that another gate has just added is not new,
// also if no webhook gets it.
func TestEventAddedMeanwhile(t *testing.T) {
	t.Parallel()
	engine, e := memstore.New(), anEvent("evt_1", 0)
	if _, err := over(t, engine).Add(t.Context(), anEvent("evt_0", 0)); err != nil {
		t.Fatal(err)
	}
	e.Queued = false
	add := func(b *event.Queue, want bool) {
		t.Helper()
		if isNew, err := b.Add(t.Context(), e); err != nil || isNew != want {
			t.Errorf("the event is new: %v, %v", isNew, err)
		}
	}
	add(over(t, &meanwhile{engine, func() { add(over(t, engine), true) }}), false)
}
