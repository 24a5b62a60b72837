package redisstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/redis/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

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

// TestClaimReadsDueEvents: a claim blocks all calls, so it reads the events
// that are due, and not all that wait. A dead webhook leaves thousands.
func TestClaimReadsDueEvents(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStore(t, redisstore.Options{URL: server.URL()})
	now := time.Now()
	const waiting = 300
	for i := range waiting {
		e := event(i, now.Add(-time.Hour))
		addEvent(t, s, e)
		check(t, s.RetryEvent(t.Context(), e.ID, now.Add(time.Hour)))
	}
	addEvent(t, s, event(waiting, now))
	do(t, server, "CONFIG", "RESETSTAT")
	list, err := s.ClaimEvents(t.Context(), now, time.Minute, 64)
	check(t, err)
	if len(list) != 1 || list[0].ID != event(waiting, now).ID {
		t.Errorf("claimed %+v, want the one that is due", list)
	}
	stats := do(t, server, "INFO", "commandstats")
	reads := regexp.MustCompile(`cmdstat_z(range|mscore)\w*:calls=(\d+)`).FindAllStringSubmatch(stats.(string), -1)
	for _, read := range reads {
		if read[2] != "1" {
			t.Errorf("got %s, want one call", read[0])
		}
	}
	if len(reads) != 2 {
		t.Errorf("got %v, want the due events and when they happened", reads)
	}
}

// TestCommitted: each call that the server answers is reported.
func TestCommitted(t *testing.T) {
	t.Parallel()
	var reported atomic.Int64
	s := openStore(t, redisstore.Options{URL: redistest.Start(t).URL(), Committed: func(took time.Duration, calls int) {
		reported.Add(int64(calls))
		if took <= 0 {
			t.Errorf("a call took %v", took)
		}
	}})
	check(t, put(t, s, account))
	for range 3 {
		check(t, takeOne(t, s))
	}
	if got := reported.Load(); got != 3 {
		t.Errorf("%d calls were reported, want 3", got)
	}
}
