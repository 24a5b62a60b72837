package redisstore_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// TestClaimReadsDueEvents: a claim blocks all calls, so it reads the events
// that are due, and not all that wait. A dead webhook leaves thousands.
func TestClaimReadsDueEvents(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStore(t, redisstore.Options{URL: server.URL(), Timeout: 10 * time.Second})
	now := time.Now()
	const waiting = 1000
	for i := range waiting {
		e := event(i, now.Add(-time.Hour))
		addEvent(t, s, e)
		check(t, s.RetryEvent(t.Context(), e.ID, now.Add(time.Hour)))
	}
	addEvent(t, s, event(waiting, now))
	_, err := server.Do("CONFIG", "RESETSTAT")
	check(t, err)
	list, err := s.ClaimEvents(t.Context(), now, time.Minute, 64)
	check(t, err)
	if len(list) != 1 || list[0].ID != event(waiting, now).ID {
		t.Errorf("claimed %+v, want the one that is due", list)
	}
	stats, err := server.Do("INFO", "commandstats")
	check(t, err)
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

// TestClaimOfMany: of many due events, those that are due longest come first,
// and all come.
func TestClaimOfMany(t *testing.T) {
	t.Parallel()
	s := openStore(t, redisstore.Options{URL: redistest.Start(t).URL(), Timeout: 10 * time.Second})
	now := time.Now()
	const events = 600
	for i := range events {
		addEvent(t, s, event(i, now.Add(-time.Duration(i)*time.Second)))
	}
	claimed := map[string]bool{}
	for len(claimed) < events {
		list, err := s.ClaimEvents(t.Context(), now, time.Minute, 64)
		check(t, err)
		if len(list) == 0 {
			t.Fatalf("claimed %d events, want %d", len(claimed), events)
		}
		for i, e := range list {
			if i > 0 && e.At.Before(list[i-1].At) || claimed[e.ID] {
				t.Errorf("claimed %s again or too late", e.ID)
			}
			claimed[e.ID] = true
		}
	}
}
