package calendar_test

import (
	"archive/zip"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// zones returns the names of the time zones that Go ships, one for each
// set of rules. The list comes from the toolchain that runs the test; it
// is an error if it has none.
func zones(t *testing.T) []string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("asking for GOROOT: %v", err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatalf("opening the list of time zones: %v", err)
	}
	defer archive.Close()
	var names []string
	seen := map[[sha256.Size]byte]bool{}
	for _, file := range archive.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		content, err := file.Open()
		if err != nil {
			t.Fatalf("opening %s: %v", file.Name, err)
		}
		rules, err := io.ReadAll(content)
		if err != nil {
			t.Fatalf("reading %s: %v", file.Name, err)
		}
		if sum := sha256.Sum256(rules); !seen[sum] {
			seen[sum] = true
			names = append(names, file.Name)
		}
	}
	if len(names) < 300 {
		t.Fatalf("got %d time zones, want all", len(names))
	}
	return names
}

// date returns the date of an instant as a number that sorts.
func date(at time.Time, location *time.Location) int {
	year, month, day := at.In(location).Date()
	return (year*100+int(month))*100 + day
}

// transitions returns the instants from 1900 to 2100 at which the offset
// of a zone changes, found by bisection between samples and not by
// ZoneBounds, which the calendar uses.
func transitions(location *time.Location) []time.Time {
	offset := func(sec int64) int {
		_, east := time.Unix(sec, 0).In(location).Zone()
		return east
	}
	const step = 5 * 24 * 60 * 60
	var found []time.Time
	last := time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for from := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).Unix(); from < last; from += step {
		low, high := from, from+step
		if offset(low) == offset(high) {
			continue
		}
		for high-low > 1 {
			middle := low + (high-low)/2
			if offset(middle) == offset(low) {
				low = middle
			} else {
				high = middle
			}
		}
		found = append(found, time.Unix(high, 0))
	}
	return found
}

// month returns the month of an instant as a number that sorts.
func month(at time.Time, location *time.Location) int { return date(at, location) / 100 }

// unit is a day or a month.
type unit struct {
	of     func(*calendar.Calendar, time.Time) *calendar.Span
	number func(time.Time, *time.Location) int
	layout string // of the beginning of a span's Day
	suffix string // the end of it
}

var (
	days   = unit{(*calendar.Calendar).At, date, "2006-01-02", ""}
	months = unit{(*calendar.Calendar).Month, month, "2006-01", "-01"}
)

// check compares the span of at with the definitions of start and midnight,
// by the dates of instants with a step between them. Far from the ends of a
// month the step is a week.
func check(t *testing.T, u unit, c *calendar.Calendar, location *time.Location, at time.Time, step time.Duration) {
	t.Helper()
	date := u.number
	span := u.of(c, at)
	today := date(at, location)
	next := func(from, to time.Time) time.Duration {
		if to.Sub(from) > 48*time.Hour {
			return 7 * 24 * time.Hour
		}
		return step
	}
	if got, want := span.Day.String(), at.In(location).Format(u.layout)+u.suffix; got != want {
		t.Fatalf("%s at %s: got day %s, want %s", location, at.UTC(), got, want)
	}
	if span.Start.After(at) || !span.End.After(at) {
		t.Fatalf("%s at %s: it is not within %s and %s", location, at.UTC(), span.Start, span.End)
	}
	if got := date(span.End, location); got <= today {
		t.Fatalf("%s at %s: the date of its midnight %s is %d", location, at.UTC(), span.End, got)
	}
	if got := date(span.Start.Add(-time.Nanosecond), location); got == today {
		t.Fatalf("%s at %s: its date began before %s", location, at.UTC(), span.Start)
	}
	for before := span.End.Add(-time.Nanosecond); !before.Before(at); before = before.Add(-next(before, span.End)) {
		if date(before, location) > today {
			t.Fatalf("%s at %s: %s is later already, midnight should be %s", location, at.UTC(), before, span.End)
		}
	}
	for since := span.Start; !since.After(at); since = since.Add(next(span.Start, since)) {
		if date(since, location) != today {
			t.Fatalf("%s at %s: %s has another date, the start should be %s", location, at.UTC(), since, span.Start)
		}
	}
}

// nearMidnight recognises transitions that can change a midnight: midnight
// is less than three hours away on the clock before or after it, or the
// clock jumps further than that.
func nearMidnight(at time.Time, location *time.Location) bool {
	before, after := at.Add(-time.Second).In(location), at.In(location)
	_, old := before.Zone()
	_, now := after.Zone()
	near := func(local time.Time) bool { return local.Hour() < 3 || local.Hour() >= 21 }
	return near(before) || near(after) || now-old > 3*3600 || old-now > 3*3600
}

// unusual are zones with a day that is skipped or repeated, with changes of the
// clock at midnight, and with changes that are no whole hours.
var unusual = []string{
	"America/Havana", "America/Santiago", "Asia/Kathmandu", "Asia/Manila", "Africa/Monrovia", "Australia/LHI",
	"Kwajalein", "Pacific/Apia",
}

// TestEveryZone checks random days and months, leap years, and closely all days
// and months of 200 years that begin or end near a change of the clock. Without
// Long, it checks every twelfth zone and some of which the clock is unusual.
func TestEveryZone(t *testing.T) {
	t.Parallel()
	for i, name := range zones(t) {
		if i%12 > 0 && !slices.Contains(unusual, name) && !storetest.Long() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustNew(t, name)
			location, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			checkZone(t, c, location)
		})
	}
}

// rulesOf names each kind of change in a zone by the clock before and after
// it. The changes of one rule are alike: the first is tested closely, the
// others are sampled.
func rulesOf(at time.Time, location *time.Location) string {
	return at.Add(-time.Second).In(location).Format("15:04:05 ") + at.In(location).Format("15:04:05")
}

// checkZone checks random instants, leap years, and closely what is around each
// change of the clock.
func checkZone(t *testing.T, c *calendar.Calendar, location *time.Location) {
	first := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	last := time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	random := rand.New(rand.NewPCG(uint64(len(location.String())), 1))
	for range 20 {
		at := time.Unix(first+random.Int64N(last-first), random.Int64N(1e9))
		check(t, days, c, location, at, time.Hour)
		check(t, months, c, location, at, time.Hour)
	}
	for year := 1900; year <= 2100; year += 4 {
		check(t, months, c, location, time.Date(year, 2, 29, random.IntN(24), 59, 0, 0, location), 24*time.Hour) // March 1 of 1900 and 2100
		check(t, days, c, location, time.Date(year, 12, 31, random.IntN(24), 59, 0, 0, location), time.Hour)
	}
	seen := map[string]bool{}
	for _, transition := range transitions(location) {
		const near = 48 * time.Hour
		endOfMonth := month(transition.Add(-near), location) != month(transition.Add(near), location)
		rule, step := rulesOf(transition, location), time.Hour
		if endOfMonth {
			rule += " at the end of a month"
		}
		offsets := []time.Duration{0, -1, 1, -time.Second, -time.Minute, time.Minute, -time.Hour, time.Hour, -24 * time.Hour, 24 * time.Hour}
		random.Shuffle(len(offsets), func(i, j int) { offsets[i], offsets[j] = offsets[j], offsets[i] })
		switch {
		case seen[rule]:
			offsets = offsets[:2]
		case nearMidnight(transition, location):
			step = time.Minute
		}
		seen[rule] = true
		for _, offset := range offsets {
			check(t, days, c, location, transition.Add(offset), step)
			if endOfMonth {
				check(t, months, c, location, transition.Add(offset), step)
			}
		}
	}
}
