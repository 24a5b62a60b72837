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

// check compares the day of at with the definitions of start and midnight, by the
// dates of instants with a step between them.
func check(t *testing.T, c *calendar.Calendar, location *time.Location, at time.Time, step time.Duration) {
	t.Helper()
	span := c.At(at)
	today := date(at, location)
	if got, want := span.Day.String(), at.In(location).Format(time.DateOnly); got != want {
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
	for before := span.End.Add(-time.Nanosecond); !before.Before(at); before = before.Add(-step) {
		if date(before, location) > today {
			t.Fatalf("%s at %s: %s is later already, midnight should be %s", location, at.UTC(), before, span.End)
		}
	}
	for since := span.Start; !since.After(at); since = since.Add(step) {
		if date(since, location) != today {
			t.Fatalf("%s at %s: %s has another date, the start should be %s", location, at.UTC(), since, span.Start)
		}
	}
}

// begins tells whether a week (0) or a month with a billing day begins on a date.
func begins(kind int, on time.Time) bool {
	if kind == 0 {
		return on.Weekday() == time.Monday
	}
	return on.Day() == kind || on.Day() < kind && on.AddDate(0, 0, 1).Day() == 1
}

// checkWindow compares the week or the month around at with what begins says of
// each date, and its ends with the dates of instants with a step between them.
func checkWindow(t *testing.T, kind int, c *calendar.Calendar, location *time.Location, at time.Time, step time.Duration) {
	t.Helper()
	year, month, day := at.In(location).Date()
	first := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	next := first.AddDate(0, 0, 1)
	for !begins(kind, first) {
		first = first.AddDate(0, 0, -1)
	}
	for !begins(kind, next) {
		next = next.AddDate(0, 0, 1)
	}
	got := c.At(at).Day.Week()
	if kind > 0 {
		got = c.At(at).Day.MonthFrom(kind)
	}
	if got.First.String() != first.Format(time.DateOnly) || (got.Last+1).String() != next.Format(time.DateOnly) {
		t.Fatalf("%s at %s, kind %d: got %s to %s, want it from %s to before %s", location, at.UTC(), kind, got.First, got.Last, first, next)
	}
	span := c.Span(got)
	for on, end := range map[time.Time]time.Time{first: span.Start, next: span.End} {
		if date(end, location) < date(on, time.UTC) {
			t.Fatalf("%s, kind %d: %s is before %s", location, kind, end, on)
		}
		for before := end.Add(-time.Nanosecond); before.After(end.Add(-2 * oneDay)); before = before.Add(-step) {
			if date(before, location) >= date(on, time.UTC) {
				t.Fatalf("%s, kind %d: %s is within %s already, not only %s", location, kind, before, on, end)
			}
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

// TestEveryZone checks random days, weeks and months from any billing day, leap
// years, and closely all of 200 years that begin or end near a change of the clock. Without
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
		check(t, c, location, at, time.Hour)
		checkWindow(t, random.IntN(32), c, location, at, time.Hour)
	}
	for year := 1900; year <= 2100; year += 4 {
		checkWindow(t, 28+random.IntN(4), c, location, time.Date(year, 2, 29, random.IntN(24), 59, 0, 0, location), time.Hour) // March 1 of 1900 and 2100
		check(t, c, location, time.Date(year, 12, 31, random.IntN(24), 59, 0, 0, location), time.Hour)
	}
	seen := map[string]bool{}
	for _, transition := range transitions(location) {
		rule, step := rulesOf(transition, location), time.Hour
		offsets := []time.Duration{0, -1, 1, -time.Second, -time.Minute, time.Minute, -time.Hour, time.Hour, -24 * time.Hour, 24 * time.Hour}
		random.Shuffle(len(offsets), func(i, j int) { offsets[i], offsets[j] = offsets[j], offsets[i] })
		switch {
		case seen[rule]:
			offsets = offsets[:2]
		case nearMidnight(transition, location):
			step = time.Minute
		}
		seen[rule] = true
		for i, offset := range offsets {
			check(t, c, location, transition.Add(offset), step)
			// A month that begins on the day of the change, or on the one beside it.
			kind := transition.AddDate(0, 0, i%3-1).In(location).Day()
			checkWindow(t, kind, c, location, transition.Add(offset), step)
			checkWindow(t, 0, c, location, transition.Add(offset), step)
		}
	}
}
