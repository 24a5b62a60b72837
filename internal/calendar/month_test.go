package calendar_test

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

const oneDay = 24 * time.Hour

// Months that are easy to get wrong. All instants are in UTC.
func TestMonthNamedCases(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, zone, at  string
		day, start, end string
		length          time.Duration
	}{
		{"30 days", "UTC", "2026-11-20T12:00:00Z", "2026-11-01", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", 30 * oneDay},
		{"29 days", "UTC", "2028-02-28T23:59:59Z", "2028-02-01", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", 29 * oneDay},
		{"leap year of a century", "UTC", "2000-02-10T00:00:00Z", "2000-02-01", "2000-02-01T00:00:00Z", "2000-03-01T00:00:00Z", 29 * oneDay},
		{"an hour more", "Europe/Berlin", "2026-10-01T00:00:00Z", "2026-10-01", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z", 31*oneDay + time.Hour},
		{"midnight of the 1st twice, one date", "America/Havana", "2026-11-01T05:00:00Z", "2026-11-01", "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z", 30*oneDay + time.Hour},
		{"skipped midnight of the 1st", "Asia/Amman", "1985-03-31T22:00:00Z", "1985-04-01", "1985-03-31T22:00:00Z", "1985-04-30T21:00:00Z", 30*oneDay - time.Hour},
		{"before the first midnight", "America/St_Johns", "2009-11-01T02:29:59Z", "2009-10-01", "2009-10-01T02:30:00Z", "2009-11-01T02:30:00Z", 31 * oneDay},
		{"a minute of the next month", "America/St_Johns", "2009-11-01T02:30:30Z", "2009-11-01", "2009-11-01T02:30:00Z", "2009-12-01T03:30:00Z", 30*oneDay + time.Hour},
		{"this month again, after its end", "America/St_Johns", "2009-11-01T02:31:00Z", "2009-10-01", "2009-10-01T02:30:00Z", "2009-11-01T02:30:00Z", 31 * oneDay},
		{"a day less", "Pacific/Apia", "2011-12-15T00:00:00Z", "2011-12-01", "2011-12-01T10:00:00Z", "2011-12-31T10:00:00Z", 30 * oneDay},
		{"after the skipped 31st", "Asia/Manila", "1844-12-31T15:56:08Z", "1845-01-01", "1844-12-31T15:56:08Z", "1845-01-31T15:56:08Z", 31 * oneDay},
	}
	for _, tc := range cases {
		got := monthOf(mustNew(t, tc.zone), instant(t, tc.at))
		if got.Day.String() != tc.day || !got.Start.Equal(instant(t, tc.start)) || !got.End.Equal(instant(t, tc.end)) || got.Length() != tc.length {
			t.Errorf("%s: got %s from %s to %s, %s; want %s from %s to %s, %s", tc.zone+" "+tc.name, got.Day, got.Start.UTC().Format(time.RFC3339),
				got.End.UTC().Format(time.RFC3339), got.Length(), tc.day, tc.start, tc.end, tc.length)
		}
		if start, end := got.Start.Location().String(), got.End.Location().String(); start != tc.zone || end != tc.zone {
			t.Errorf("%s: zones of the ends: got %s and %s, want %s", tc.zone+" "+tc.name, start, end, tc.zone)
		}
	}
}

// A cached month must not be returned for an instant of another one: with two
// midnights in a night, for late calls and when the clock is set.
func TestMonthOfAMovedClock(t *testing.T) {
	t.Parallel()
	c := mustNew(t, "America/St_Johns")
	for _, step := range []struct{ at, month, day string }{
		{"2009-11-01T02:30:30Z", "2009-11-01", "2009-11-01"},
		{"2009-11-01T02:45:00Z", "2009-10-01", "2009-10-31"},
		{"2009-11-01T12:00:00Z", "2009-11-01", "2009-11-01"},
		{"2009-11-01T02:29:59Z", "2009-10-01", "2009-10-31"},
		{"2009-11-01T02:30:00Z", "2009-11-01", "2009-11-01"},
		{"2009-11-01T03:29:59.9Z", "2009-10-01", "2009-10-31"},
		{"2026-11-20T12:00:00Z", "2026-11-01", "2026-11-20"},
		{"1999-01-01T12:00:00Z", "1999-01-01", "1999-01-01"},
		{"2026-11-20T12:00:00Z", "2026-11-01", "2026-11-20"},
		{"2026-12-01T03:30:00Z", "2026-12-01", "2026-12-01"},
		{"2026-12-01T03:29:59.9Z", "2026-11-01", "2026-11-30"},
	} {
		at := instant(t, step.at)
		if got := monthOf(c, at).Day.String(); got != step.month {
			t.Errorf("at %s: got month %s, want %s", step.at, got, step.month)
		}
		if got := c.At(at).Day.String(); got != step.day {
			t.Errorf("at %s: got day %s, want %s", step.at, got, step.day)
		}
	}
}

func TestMonthFromManyGoroutines(t *testing.T) {
	t.Parallel()
	c := mustNew(t, "Europe/Berlin")
	first := instant(t, "2026-11-20T12:00:00Z")
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 1000 {
				at := first.AddDate(0, (i*worker)%3, 0)
				if got, want := monthOf(c, at).Day.String(), at.Format("2006-01")+"-01"; got != want {
					t.Errorf("at %s: got %s, want %s", at, got, want)
				}
				if got, want := c.At(at).Day.String(), at.Format(time.DateOnly); got != want {
					t.Errorf("at %s: got %s, want %s", at, got, want)
				}
			}
		})
	}
	group.Wait()
}

// Calls ask for the day and the month in turn.
func TestMonthAllocatesNothing(t *testing.T) {
	c := mustNew(t, "America/Santiago")
	at := instant(t, "2026-11-20T12:00:00Z")
	c.At(at)
	monthOf(c, at)
	if got := testing.AllocsPerRun(1000, func() { c.At(at); monthOf(c, at) }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

// TestDayMonth compares the month of a day with the calendar of Go.
func TestDayMonth(t *testing.T) {
	t.Parallel()
	for day, want := range map[calendar.Day]string{
		0: "1970-01-01 1970-01-31", -1: "1969-12-01 1969-12-31", 20777: "2026-11-01 2026-11-30", 11016: "2000-02-01 2000-02-29", -25509: "1900-02-01 1900-02-28",
	} {
		first, last := day.Month()
		if got := first.String() + " " + last.String(); got != want {
			t.Errorf("month of %s: got %s, want %s", day, got, want)
		}
		if parsed, err := calendar.ParseDay(day.String()); parsed != day || err != nil {
			t.Errorf("day %s: got %d, %v, want %d", day, parsed, err, day)
		}
	}
	for _, text := range []string{"", "2026-11-31", "2026-1-1", "20261120", "2026-11-20T00:00:00Z"} {
		if got, err := calendar.ParseDay(text); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		day := calendar.Day(rapid.Int32Range(-719_528, 2_932_896).Draw(t, "day"))
		first, last := day.Month()
		month := day.String()[:len("2006-01")]
		if first.String() != month+"-01" || last.String()[:len("2006-01")] != month || (last + 1).String()[len("2006-"):] == month || first > day || day > last {
			t.Fatalf("month of %s: got %s to %s", day, first, last)
		}
		if next, _ := (last + 1).Month(); next != last+1 {
			t.Fatalf("%s is not the first of a month", last+1)
		}
	})
}

// monthOf returns the month of the calendar around an instant.
func monthOf(c *calendar.Calendar, at time.Time) *calendar.Span {
	return c.Span(c.At(at).Day.MonthFrom(1))
}
