package calendar_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

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
		got, err := calendar.ParseDay(name)
		if err != nil || got != want {
			t.Errorf("ParseDay(%q): got %d, %v; want %d", name, got, err, want)
		}
		if got := want.String(); got != name {
			t.Errorf("name of day %d: got %s, want %s", want, got, name)
		}
	}
}

func TestParseDayRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "2026", "2026-11", "2026-11-31", "2026-02-29", "2026-13-01", "2026-1-02", "26-11-20",
		"2026-11-20T00:00:00Z", " 2026-11-20", "2026-11-20 ", "20261120", "2026/11/20", "-026-11-20",
	} {
		if got, err := calendar.ParseDay(text); err == nil {
			t.Errorf("ParseDay(%q): got day %v, want an error", text, got)
		}
	}
}

func TestDayArithmetic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// All days that have four digits for the year.
		day := calendar.Day(rapid.Int32Range(-719_528, 2_932_896).Draw(t, "day"))
		got, err := calendar.ParseDay(day.String())
		if err != nil || got != day {
			t.Fatalf("day %d through its name %s: got %d, %v", day, day, got, err)
		}
		add := rapid.IntRange(-400, 400).Draw(t, "add")
		want := time.Unix(int64(day)*86400, 0).UTC().AddDate(0, 0, add).Format(time.DateOnly)
		if got := (day + calendar.Day(add)).String(); got != want {
			t.Fatalf("%s and %d days: got %s, want %s", day, add, got, want)
		}
	})
}

func FuzzParseDay(f *testing.F) {
	f.Add("2026-11-20")
	f.Add("0000-00-00")
	f.Fuzz(func(t *testing.T, text string) {
		day, err := calendar.ParseDay(text)
		if err == nil && day.String() != text {
			t.Errorf("ParseDay(%q): got %s", text, day)
		}
	})
}
