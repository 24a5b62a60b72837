package calendar_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
)

func TestDayNames(t *testing.T) {
	t.Parallel()
	cases := map[string]calendar.Day{
		"1970-01-01": 0,
		"1969-12-31": -1,
		"2000-02-29": 11016,
		"2026-11-20": 20777,
		"1900-03-01": -25508,
	}
	for name, want := range cases {
		if got := want.String(); got != name {
			t.Errorf("name of day %d: got %s, want %s", want, got, name)
		}
		if got, err := calendar.ParseDay(name); got != want || err != nil {
			t.Errorf("day %s: got %d, %v, want %d", name, got, err, want)
		}
	}
	for _, text := range []string{"", "2026-11-31", "2026-1-1", "20261120", "2026-11-20T00:00:00Z"} {
		if got, err := calendar.ParseDay(text); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
}
