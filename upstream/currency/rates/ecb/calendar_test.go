package ecb

import (
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

func TestEaster(t *testing.T) {
	t.Parallel()
	for year, want := range map[int]string{
		1961: "1961-04-02", 2000: "2000-04-23", 2008: "2008-03-23", 2011: "2011-04-24",
		2024: "2024-03-31", 2025: "2025-04-20", 2026: "2026-04-05", 2027: "2027-03-28", 2038: "2038-04-25",
	} {
		if got := easterSunday(year).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The calendar agrees with each publication since 2002, when TARGET got the
// holidays that it has.
func TestPublishesAgreesWithTheFile(t *testing.T) {
	t.Parallel()
	data := embedded(t)
	for day := civil.New(2002, time.January, 1); day <= data.Newest(); day++ {
		if _, found := data.On(day); found != publishes(day) {
			t.Errorf("%s: got %v, want %v", day, publishes(day), found)
		}
	}
	for _, holiday := range []string{"2026-01-01", "2026-05-01", "2026-12-25", "2028-12-26"} {
		day, err := civil.Parse(holiday)
		if err != nil || publishes(day) {
			t.Errorf("%s is a holiday, %v", day, err)
		}
	}
}

// A publication is missed when its window has ended.
func TestMissed(t *testing.T) {
	t.Parallel()
	// 13 April 2026 is a Monday.
	for name, c := range map[string]struct {
		now, newest string
		want        int
	}{
		"in the window":          {"2026-04-13T16:59:59Z", "2026-04-10", 0},
		"the window is over":     {"2026-04-13T17:00:00Z", "2026-04-10", 1},
		"the next day":           {"2026-04-14T16:59:59Z", "2026-04-10", 1},
		"two":                    {"2026-04-14T17:00:00Z", "2026-04-10", 2},
		"a weekend":              {"2026-04-12T23:00:00Z", "2026-04-10", 0},
		"Easter":                 {"2026-04-07T16:00:00Z", "2026-04-02", 0},
		"after Easter":           {"2026-04-07T17:00:00Z", "2026-04-02", 1},
		"rates of the day":       {"2026-04-13T15:00:00Z", "2026-04-13", 0},
		"a clock that went back": {"2026-04-09T17:00:00Z", "2026-04-13", 0},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		newest, err := civil.Parse(c.newest)
		if err != nil {
			t.Fatal(err)
		}
		if got := missed(now, newest); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestNextPoll(t *testing.T) {
	t.Parallel()
	// 13 April 2026 is a Monday.
	tests := []struct {
		name, now, newest, want string
	}{
		{"before the window", "2026-04-13T08:00:00Z", "2026-04-10", "2026-04-13T14:00:00Z"},
		{"in the window", "2026-04-13T14:00:05Z", "2026-04-10", "2026-04-13T14:30:05Z"},
		{"the end of the window", "2026-04-13T16:31:00Z", "2026-04-10", "2026-04-13T17:00:00Z"},
		{"the window is over", "2026-04-13T17:00:00Z", "2026-04-10", "2026-04-14T14:00:00Z"},
		{"the day's rates are here", "2026-04-13T14:30:00Z", "2026-04-13", "2026-04-14T14:00:00Z"},
		{"Maundy Thursday", "2026-04-02T18:00:00Z", "2026-04-02", "2026-04-07T14:00:00Z"},
		{"nothing held", "2026-04-11T12:00:00Z", "", "2026-04-13T14:00:00Z"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			now, err := time.Parse(time.RFC3339, test.now)
			if err != nil {
				t.Fatal(err)
			}
			var newest civil.Date
			if err := newest.UnmarshalText([]byte(test.newest)); err != nil {
				t.Fatal(err)
			}
			if got := nextPoll(now, newest).Format(time.RFC3339); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
