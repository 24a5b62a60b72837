package web

import (
	"net/url"
	"testing"
)

// The recent calls are the newest 20, all that are known, or those that were
// refused. The text counts them, and never says that there was no refused call
// before those that are known.
func TestCallList(t *testing.T) {
	t.Parallel()
	v, none := storyVisit("starter"), storyUsage(nil, 40).RecentCalls
	for i := range none {
		none[i].Code = ""
	}
	for name, c := range map[string]struct {
		query, text string
		calls, rows int
		more        bool
	}{
		"newest":  {"", "Shown: 20 of the last 40 calls, 4 of them refused.", 40, 20, true},
		"all":     {"calls=all", "Shown: 40 of the last 40 calls, 4 of them refused.", 40, 40, false},
		"refused": {"calls=refused", "Refused: 4 of the last 40 calls.", 40, 4, false},
		"one":     {"", "Shown: 1 of the last 1 call, none of them refused.", 1, 1, false},
		"empty":   {"calls=refused", "", 0, 0, false},
	} {
		query, _ := url.ParseQuery(c.query)
		list := v.callList(storyUsage(nil, c.calls).RecentCalls, query)
		if len(list.Rows) != c.rows || list.More != c.more || c.calls > 0 && list.Text() != c.text {
			t.Errorf("%s: got %d rows, more %t, %q", name, len(list.Rows), list.More, list.Text())
		}
		for _, row := range list.Rows {
			if c.query == "calls=refused" && row.Code == "" {
				t.Errorf("%s: shows a call that was not refused: %+v", name, row)
			}
		}
	}
	list := v.callList(none, url.Values{"calls": {"refused"}})
	if len(list.Rows) != 0 || list.Text() != "Refused: none of the last 40 calls." {
		t.Errorf("without refused calls: got %d rows, %q", len(list.Rows), list.Text())
	}
}
