package calendar_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
)

func mustNew(t testing.TB, zone string) *calendar.Calendar {
	t.Helper()
	c, err := calendar.New(zone)
	if err != nil {
		t.Fatalf("New(%q): %v", zone, err)
	}
	return c
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"", "Local"} {
		if _, err := calendar.New(zone); !errors.Is(err, calendar.ErrZone) {
			t.Errorf("New(%q): got %v, want %v", zone, err, calendar.ErrZone)
		}
	}
	for _, zone := range []string{"Europe/Atlantis", "../etc/passwd", "/etc/localtime", "UTC+1", "Europe/", `Europe\Berlin`} {
		if c, err := calendar.New(zone); err == nil {
			t.Errorf("New(%q): got %s, want an error", zone, c.Zone())
		}
	}
}

func TestZone(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"} {
		if got := mustNew(t, zone).Zone(); got != zone {
			t.Errorf("got %q, want %q", got, zone)
		}
	}
}

// Days that some programs got wrong. All instants are in UTC.
func TestAtNamedCases(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, zone, at  string
		day, start, end string
		length          time.Duration
	}{
		{"plain", "UTC", "2026-11-20T23:59:59.999999999Z", "2026-11-20", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", 24 * time.Hour},
		{"first instant", "UTC", "2026-11-20T00:00:00Z", "2026-11-20", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", 24 * time.Hour},
		{"23 hours", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 23 * time.Hour},
		{"25 hours", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 25 * time.Hour},
		{"before skipped midnight", "America/Santiago", "2026-09-06T03:59:59Z", "2026-09-05", "2026-09-05T04:00:00Z", "2026-09-06T04:00:00Z", 24 * time.Hour},
		{"after skipped midnight", "America/Santiago", "2026-09-06T04:00:00Z", "2026-09-06", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z", 23 * time.Hour},
		{"hour before midnight twice", "America/Santiago", "2026-04-05T02:30:00Z", "2026-04-04", "2026-04-04T03:00:00Z", "2026-04-05T04:00:00Z", 25 * time.Hour},
		{"and its second pass", "America/Santiago", "2026-04-05T03:30:00Z", "2026-04-04", "2026-04-04T03:00:00Z", "2026-04-05T04:00:00Z", 25 * time.Hour},
		{"skipped midnight", "America/Havana", "2026-03-08T20:00:00Z", "2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", 23 * time.Hour},
		{"midnight twice, one date", "America/Havana", "2026-11-01T05:00:00Z", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25 * time.Hour},
		{"skipped midnight", "Atlantic/Azores", "2026-03-29T01:00:00Z", "2026-03-29", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z", 23 * time.Hour},
		{"midnight twice, one date", "Atlantic/Azores", "2026-10-25T01:30:00Z", "2026-10-25", "2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z", 25 * time.Hour},
		{"skipped midnight", "Africa/Cairo", "2026-04-23T22:00:00Z", "2026-04-24", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z", 23 * time.Hour},
		{"midnight put off", "Africa/Cairo", "2026-10-29T21:30:00Z", "2026-10-29", "2026-10-28T21:00:00Z", "2026-10-29T22:00:00Z", 25 * time.Hour},
		{"skipped midnight", "Asia/Beirut", "2026-03-28T22:00:00Z", "2026-03-29", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z", 23 * time.Hour},
		{"midnight put off", "Asia/Beirut", "2026-10-24T21:00:00Z", "2026-10-24", "2026-10-23T21:00:00Z", "2026-10-24T22:00:00Z", 25 * time.Hour},
		{"before the skipped day", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", 24 * time.Hour},
		{"after the skipped day", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z", 24 * time.Hour},
		{"before the skipped day", "Pacific/Kwajalein", "1993-08-21T11:00:00Z", "1993-08-20", "1993-08-20T12:00:00Z", "1993-08-21T12:00:00Z", 24 * time.Hour},
		{"after the skipped day", "Pacific/Kwajalein", "1993-08-21T12:00:00Z", "1993-08-22", "1993-08-21T12:00:00Z", "1993-08-22T12:00:00Z", 24 * time.Hour},
		{"before the first midnight", "America/St_Johns", "2006-10-28T15:00:00Z", "2006-10-28", "2006-10-28T02:30:00Z", "2006-10-29T02:30:00Z", 24 * time.Hour},
		{"a minute of tomorrow", "America/St_Johns", "2006-10-29T02:30:30Z", "2006-10-29", "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z", 25 * time.Hour},
		{"today again", "America/St_Johns", "2006-10-29T02:31:00Z", "2006-10-28", "2006-10-29T02:31:00Z", "2006-10-29T03:30:00Z", 59 * time.Minute},
		{"tomorrow at last", "America/St_Johns", "2006-10-29T03:30:00Z", "2006-10-29", "2006-10-29T03:30:00Z", "2006-10-30T03:30:00Z", 24 * time.Hour},
		{"day after 00:01 change", "America/St_Johns", "2006-04-02T03:31:00Z", "2006-04-02", "2006-04-02T03:30:00Z", "2006-04-03T02:30:00Z", 23 * time.Hour},
		{"skipped midnight", "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", 23 * time.Hour},
		{"midnight put off", "America/Sao_Paulo", "2018-02-18T02:59:59Z", "2018-02-17", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", 25 * time.Hour},
		{"half an hour more", "Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-05", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z", 24*time.Hour + 30*time.Minute},
		{"half an hour less", "Australia/Lord_Howe", "2026-10-04T00:00:00Z", "2026-10-04", "2026-10-03T13:30:00Z", "2026-10-04T13:00:00Z", 23*time.Hour + 30*time.Minute},
		{"last day of a leap year", "Europe/Berlin", "2096-12-31T12:00:00Z", "2096-12-31", "2096-12-30T23:00:00Z", "2096-12-31T23:00:00Z", 24 * time.Hour},
		{"last evening of a leap year", "America/New_York", "2097-01-01T04:30:00Z", "2096-12-31", "2096-12-31T05:00:00Z", "2097-01-01T05:00:00Z", 24 * time.Hour},
		{"last day of a southern leap year", "America/Santiago", "2096-12-31T12:00:00Z", "2096-12-31", "2096-12-31T03:00:00Z", "2097-01-01T03:00:00Z", 24 * time.Hour},
	}
	for _, tc := range cases {
		t.Run(tc.zone+" "+tc.name, func(t *testing.T) {
			t.Parallel()
			c := mustNew(t, tc.zone)
			got := c.At(instant(t, tc.at))
			if got.Day.String() != tc.day {
				t.Errorf("day: got %s, want %s", got.Day, tc.day)
			}
			if !got.Start.Equal(instant(t, tc.start)) {
				t.Errorf("start: got %s, want %s", got.Start.UTC(), tc.start)
			}
			if !got.End.Equal(instant(t, tc.end)) {
				t.Errorf("end: got %s, want %s", got.End.UTC(), tc.end)
			}
			if got.Length() != tc.length {
				t.Errorf("length: got %s, want %s", got.Length(), tc.length)
			}
			if zone := got.End.Location().String(); zone != tc.zone {
				t.Errorf("zone of the end: got %s, want %s", zone, tc.zone)
			}
		})
	}
}

// With two midnights in a night, the cached day must not be returned for
// an instant with another date.
func TestAtRemembersNoOtherDate(t *testing.T) {
	t.Parallel()
	c := mustNew(t, "America/St_Johns")
	order := []struct{ at, day string }{
		{"2006-10-29T02:30:30Z", "2006-10-29"},
		{"2006-10-29T02:45:00Z", "2006-10-28"},
		{"2006-10-29T12:00:00Z", "2006-10-29"},
		{"2006-10-29T02:29:59Z", "2006-10-28"},
		{"2006-10-29T02:30:00Z", "2006-10-29"},
		{"2006-10-29T03:29:59.9Z", "2006-10-28"},
	}
	for _, step := range order {
		if got := c.At(instant(t, step.at)).Day.String(); got != step.day {
			t.Errorf("at %s: got %s, want %s", step.at, got, step.day)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	span := mustNew(t, "Europe/Berlin").At(instant(t, "2026-11-20T12:00:00Z"))
	cases := map[string]struct {
		before time.Duration
		want   int64
	}{
		"whole day":        {24 * time.Hour, 86400},
		"whole second":     {time.Second, 1},
		"a little more":    {time.Second + time.Nanosecond, 2},
		"a little less":    {2*time.Second - time.Nanosecond, 2},
		"last nanosecond":  {time.Nanosecond, 1},
		"at midnight":      {0, 1},
		"after the change": {-time.Hour, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := span.RetryAfter(span.End.Add(-tc.before)); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestAtFromManyGoroutines(t *testing.T) {
	t.Parallel()
	c := mustNew(t, "Europe/Berlin")
	first := instant(t, "2026-11-20T12:00:00Z")
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 1000 {
				at := first.AddDate(0, 0, (i*worker)%3)
				if got, want := c.At(at).Day.String(), at.Format(time.DateOnly); got != want {
					t.Errorf("at %s: got %s, want %s", at, got, want)
				}
			}
		})
	}
	group.Wait()
}

func TestAtAllocatesNothing(t *testing.T) {
	c := mustNew(t, "America/Santiago")
	at := instant(t, "2026-11-20T12:00:00Z")
	c.At(at)
	if got := testing.AllocsPerRun(1000, func() { c.At(at) }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func BenchmarkAt(b *testing.B) {
	c := mustNew(b, "Europe/Berlin")
	at := instant(b, "2026-11-20T12:00:00Z")
	var span *calendar.Span
	b.ReportAllocs()
	for b.Loop() {
		span = c.At(at)
	}
	if span.RetryAfter(at) != 11*60*60 {
		b.Fatal(span)
	}
}
