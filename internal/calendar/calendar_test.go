package calendar_test

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
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

// Days that some programs got wrong. All instants are in UTC.
func TestAtNamedCases(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, zone, at  string
		day, start, end string
		length          time.Duration
	}{
		{"23 hours", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 23 * time.Hour},
		{"25 hours", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 25 * time.Hour},
		{"before skipped midnight", "America/Santiago", "2026-09-06T03:59:59Z", "2026-09-05", "2026-09-05T04:00:00Z", "2026-09-06T04:00:00Z", 24 * time.Hour},
		{"after skipped midnight", "America/Santiago", "2026-09-06T04:00:00Z", "2026-09-06", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z", 23 * time.Hour},
		{"midnight twice, one date", "America/Havana", "2026-11-01T05:00:00Z", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25 * time.Hour},
		{"midnight twice, one date", "Atlantic/Azores", "2026-10-25T01:30:00Z", "2026-10-25", "2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z", 25 * time.Hour},
		{"skipped midnight", "Africa/Cairo", "2026-04-23T22:00:00Z", "2026-04-24", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z", 23 * time.Hour},
		{"before the skipped day", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", 24 * time.Hour},
		{"after the skipped day", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z", 24 * time.Hour},
		{"before the first midnight", "America/St_Johns", "2006-10-28T15:00:00Z", "2006-10-28", "2006-10-28T02:30:00Z", "2006-10-29T02:30:00Z", 24 * time.Hour},
		{"a minute of tomorrow", "America/St_Johns", "2006-10-29T02:30:30Z", "2006-10-29", "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z", 25 * time.Hour},
		{"today again", "America/St_Johns", "2006-10-29T02:31:00Z", "2006-10-28", "2006-10-29T02:31:00Z", "2006-10-29T03:30:00Z", 59 * time.Minute},
		{"tomorrow at last", "America/St_Johns", "2006-10-29T03:30:00Z", "2006-10-29", "2006-10-29T03:30:00Z", "2006-10-30T03:30:00Z", 24 * time.Hour},
		{"midnight put off", "America/Sao_Paulo", "2018-02-18T02:59:59Z", "2018-02-17", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", 25 * time.Hour},
		{"half an hour more", "Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-05", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z", 24*time.Hour + 30*time.Minute},
		{"last day of a leap year", "Europe/Berlin", "2096-12-31T12:00:00Z", "2096-12-31", "2096-12-30T23:00:00Z", "2096-12-31T23:00:00Z", 24 * time.Hour},
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

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	span := mustNew(t, "Europe/Berlin").At(instant(t, "2026-11-20T12:00:00Z"))
	for before, want := range map[time.Duration]int64{
		24 * time.Hour: 86400, time.Second: 1, time.Second + 1: 2, 2*time.Second - 1: 2, 1: 1, 0: 1, -time.Hour: 1,
	} {
		if got := span.RetryAfter(span.End.Add(-before)); got != want {
			t.Errorf("%s before the end: got %d, want %d", before, got, want)
		}
	}
}

// TestEndOf has zones whose days do not end at a usual midnight.
func TestEndOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ zone, day, want string }{
		{"UTC", "2028-02-28", "2028-02-29T00:00:00Z"},
		{"Pacific/Kiritimati", "2026-12-31", "2026-12-31T10:00:00Z"},
		{"Pacific/Pago_Pago", "2026-12-31", "2027-01-01T11:00:00Z"},
		{"Europe/Berlin", "2026-03-29", "2026-03-29T22:00:00Z"},     // 23 hours
		{"Europe/Berlin", "2026-10-25", "2026-10-25T23:00:00Z"},     // 25 hours
		{"America/Sao_Paulo", "2018-11-03", "2018-11-04T03:00:00Z"}, // the next day begins at 01:00
		{"America/St_Johns", "2011-11-05", "2011-11-06T02:30:00Z"},  // the first of two midnights
		{"Pacific/Apia", "2011-12-29", "2011-12-30T10:00:00Z"},
		{"Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"}, // a day that there was not
		{"Pacific/Apia", "2011-12-31", "2011-12-31T10:00:00Z"},
	} {
		day, err := calendar.ParseDay(test.day)
		if got := mustNew(t, test.zone).EndOf(day); err != nil || !got.Equal(instant(t, test.want)) {
			t.Errorf("%s in %s: got %s, %v, want %s", test.day, test.zone, got.UTC(), err, test.want)
		}
	}
}
