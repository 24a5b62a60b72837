package web

import (
	"strings"
	"testing"
)

// Equal refusals in a row are one row. It shows the path if all have the same,
// else the pattern of their endpoint.
func TestEqualRefusalsAreOneRow(t *testing.T) {
	t.Parallel()
	v, document := storyVisit("starter"), burstUsage()
	rows := v.callRows(document.RecentCalls)
	if len(rows) != 22 {
		t.Fatalf("got %d rows, want 2 of refusals and 20 of calls", len(rows))
	}
	for i, want := range []struct {
		calls     int
		path      string
		at, since int // the calls that they are the time of
	}{{30, "/api/convert/batch", 0, 29}, {20, "/api/convert/{from}/{amount}/{to}", 30, 49}} {
		at, since := v.clock.precise(document.RecentCalls[want.at].At.Time), v.clock.precise(document.RecentCalls[want.since].At.Time)
		if got := rows[i]; got.Calls != want.calls || got.Path != want.path || got.At != at || got.Since == nil || *got.Since != since {
			t.Errorf("row %d: got %+v, want %+v", i, got, want)
		}
	}
	for _, row := range rows[2:] {
		if row.Calls != 1 || row.Since != nil {
			t.Errorf("got %+v, want a row for each call that was not refused twice", row)
		}
	}
	for i := range document.RecentCalls[:50] {
		document.RecentCalls[i].KeyID = "key_1"
	}
	if rows = v.keyCalls("key_1", document); len(rows) != 2 || rows[0].Calls != 30 {
		t.Errorf("the page of the key has %+v", rows)
	}
	if page := tell(t, storySite(t), "usage-burst").Body.String(); !strings.Contains(page, "<code>quota_exceeded</code> <strong>× 30</strong>") {
		t.Errorf("the page lacks the number: %s", page)
	}
}
