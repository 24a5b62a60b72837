package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// The page of a key has its last calls and those of no other key.
func TestKeyCalls(t *testing.T) {
	t.Parallel()
	v := storyVisit("starter")
	document := storyUsage(nil, 40)
	for i := range document.RecentCalls {
		document.RecentCalls[i].KeyID = []string{"key_a", "key_b", ""}[i%3]
	}
	got := v.keyCalls("key_a", document)
	if len(got) != maxKeyCalls || got[1].At != v.clock.precise(document.RecentCalls[3].At.Time) {
		t.Errorf("got %d calls: %+v", len(got), got)
	}
	if none := v.keyCalls("key_c", document); len(none) != 0 {
		t.Errorf("a key without calls: got %+v", none)
	}
}

// The page of a key has a command until the key has calls.
func TestKeySample(t *testing.T) {
	t.Parallel()
	s := storySite(t)
	for name, want := range map[string]bool{"key": false, "key-limits": true, "key-expired": false} {
		if body := tell(t, s, name).Body.String(); strings.Contains(body, `id="sample"`) != want || strings.Contains(body, "<code>TOKEN</code>") != want {
			t.Errorf("%s: a command is wanted: %t; got %s", name, want, body)
		}
	}
}

// A successor is the newest key of the same rotations, if it is live. Another
// key with the same name is none.
func TestSuccessors(t *testing.T) {
	t.Parallel()
	at := func(hours int) *time.Time { return new(storyTime.Add(time.Duration(hours) * time.Hour)) }
	key := func(id, root string, expires, revoked *time.Time) api.Key {
		return api.Key{ID: id, Root: root, Name: id[:1], ExpiresAt: expires, RevokedAt: revoked}
	}
	next := successors([]api.Key{
		key("a1", "", nil, at(-8)), key("a2", "a1", at(2), at(-7)), key("a3", "a1", at(1), nil), key("a4", "a1", nil, nil),
		key("b1", "", nil, at(-4)), key("b2", "", nil, nil),
		key("c1", "", nil, at(-4)), key("c2", "c1", nil, at(-1)),
		key("d1", "", at(-1), nil), key("d2", "d1", at(5), nil),
	}, storyTime)
	for id, want := range map[string]string{"a1": "a4", "a2": "a4", "a3": "a4", "a4": "", "b1": "", "c1": "", "d1": "d2"} {
		got := ""
		if next[id] != nil {
			got = next[id].ID
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
}

// The last day of a key is whole, also where clocks skip the midnight after it.
func TestLastDay(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]string{
		"America/Havana": "2026-03-07T23:59:59-05:00", "America/Santiago": "2026-03-07T23:59:59-03:00", "UTC": "2026-03-07T23:59:59Z",
	} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		v := &visit{clock: clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), zone: location}}
		_, at := v.expiry(&keyForm{Life: untilDate, Until: "2026-03-07"})
		if got := at.Format(time.RFC3339); got != want {
			t.Errorf("%s: got %s, want %s", zone, got, want)
		}
	}
}

// A key that ended shows the date of its end, not an older expiry.
func TestEnds(t *testing.T) {
	t.Parallel()
	s := storySite(t)
	for name, want := range map[string]string{
		"key-revoked": "<dt>Revoked</dt><dd><time datetime=\"2026-11-02T18:47:30Z\" title=\"2 Nov 2026, 19:47:30 CET\">2 Nov 2026</time>",
		"key-expired": "<dt>Expired</dt><dd><time datetime=\"2026-11-19T18:47:30Z\" title=\"19 Nov 2026, 19:47:30 CET\">19 Nov 2026</time>",
	} {
		w := httptest.NewRecorder()
		if err := stories()[name](s, w); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: got %d, %v", name, w.Code, err)
		}
		if !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "<dt>Expiry</dt>") {
			t.Errorf("%s lacks %s: %s", name, want, w.Body)
		}
	}
}
