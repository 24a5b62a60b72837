package civil_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text    string
		want    civil.Date
		weekday time.Weekday
	}{
		{"0001-01-01", 1, time.Monday},
		{"1970-01-01", 719163, time.Thursday},
		{"2024-02-29", civil.New(2024, time.February, 29), time.Thursday},
		{"2026-11-20", civil.New(2026, time.November, 20), time.Friday},
		{"9999-12-31", civil.New(9999, time.December, 31), time.Friday},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			t.Parallel()
			got, err := civil.Parse(test.text)
			if err != nil || got != test.want {
				t.Fatalf("got %d, %v, want %d", got, err, test.want)
			}
			if got.String() != test.text {
				t.Errorf("got %s back, want %s", got, test.text)
			}
			if got.Weekday() != test.weekday {
				t.Errorf("got %v, want %v", got.Weekday(), test.weekday)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "2026-02-30", "2026-2-1", "20260201", "2026-13-01", "2026-01-00", "0000-01-01", "2026-02-01T00:00:00Z",
		"+026-02-01", "2026-+2-01", "2026/02/01", "٢٠٢٦-٠٢-٠١", "-001-01-01",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			if got, err := civil.Parse(text); !errors.Is(err, civil.ErrDate) {
				t.Errorf("got %v, %v, want ErrDate", got, err)
			}
		})
	}
}

// A day is the day of the wall clock, whatever the zone.
func TestOfUsesTheZoneOfTheTime(t *testing.T) {
	t.Parallel()
	instant := time.Date(2026, time.March, 1, 23, 30, 0, 0, time.UTC)
	east := instant.In(time.FixedZone("east", 3600))
	if got, want := civil.Of(instant).String(), "2026-03-01"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := civil.Of(east).String(), "2026-03-02"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDateAgreesWithTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		date := civil.Date(rapid.Int32Range(1, 3_652_059).Draw(t, "date"))
		moment := date.Time()
		if got := civil.Of(moment); got != date {
			t.Fatalf("got %d back, want %d", got, date)
		}
		if date.Weekday() != moment.Weekday() {
			t.Fatalf("%s: got %v, want %v", date, date.Weekday(), moment.Weekday())
		}
		if got, err := civil.Parse(date.String()); err != nil || got != date {
			t.Fatalf("%s: got %v, %v", date, got, err)
		}
		if next := (date + 1).Time(); next != moment.AddDate(0, 0, 1) {
			t.Fatalf("the day after %s: got %v", date, next)
		}
	})
}

func TestTextOfNoDate(t *testing.T) {
	t.Parallel()
	var date civil.Date
	if got := date.String(); got != "" || !date.IsZero() {
		t.Errorf("got %q, want nothing", got)
	}
	date = 5
	if err := date.UnmarshalText(nil); err != nil || date != 0 {
		t.Errorf("got %v, %v, want the zero date", date, err)
	}
}
