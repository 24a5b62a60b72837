package web

import (
	"strconv"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

// clock formats times relative to a moment, in a zone.
type clock struct {
	now  time.Time
	zone *time.Location
}

// moment is a time in three formats: for programs, in full, and short.
type moment struct{ Exact, Full, Text string }

const (
	day          = 24 * time.Hour
	recentDays   = 7
	maxDaysAhead = 60
	fullTime     = "2 Jan 2006, 15:04:05 MST"
	shortDate    = "2 Jan 2006"
	dayAndMonth  = "2 Jan"
	timeOfDay    = "15:04:05"
)

// moment formats a time. The short text is relative to now for times nearby,
// and otherwise a date.
func (c clock) moment(t time.Time) moment {
	t = t.In(c.zone)
	m := moment{Exact: t.UTC().Format(time.RFC3339), Full: t.Format(fullTime)}
	if t.After(c.now) {
		m.Text = c.ahead(t)
	} else {
		m.Text = c.past(t)
	}
	return m
}

// momentOrNil is moment for a time that may be absent.
func (c clock) momentOrNil(t *time.Time) *moment {
	if t == nil {
		return nil
	}
	return new(c.moment(*t))
}

// precise formats a time with seconds: the time of day, and the date unless it
// is today.
func (c clock) precise(t time.Time) moment {
	m := c.moment(t)
	m.Text = t.In(c.zone).Format(timeOfDay)
	if c.days(t, c.now) != 0 {
		m.Text = t.In(c.zone).Format(dayAndMonth + " " + timeOfDay)
	}
	return m
}

func (c clock) past(t time.Time) string {
	ago := c.now.Sub(t)
	switch days := c.days(t, c.now); {
	case ago < 45*time.Second:
		return "just now"
	case ago < time.Hour:
		return plural(max(1, int(ago/time.Minute)), "minute") + " ago"
	case ago < day:
		return plural(int(ago/time.Hour), "hour") + " ago"
	case days <= 1:
		return "yesterday"
	case days < recentDays:
		return plural(days, "day") + " ago"
	}
	return t.Format(shortDate)
}

func (c clock) ahead(t time.Time) string {
	left := t.Sub(c.now)
	switch days := c.days(c.now, t); {
	case left < day:
		return inWords(left)
	case days <= 1:
		return "tomorrow"
	case days < maxDaysAhead:
		return "in " + plural(days, "day")
	}
	return t.Format(shortDate)
}

// inWords formats a wait of less than a day.
func inWords(wait time.Duration) string {
	if wait < time.Hour {
		return "in " + plural(max(1, int(wait/time.Minute)), "minute")
	}
	return "in " + plural(int(wait/time.Hour), "hour")
}

// days counts midnights between two times. By hours, 23:00 of the day before
// yesterday would be "yesterday" at one in the morning.
func (c clock) days(from, to time.Time) int {
	y, m, d := from.In(c.zone).Date()
	first := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	y, m, d = to.In(c.zone).Date()
	return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Sub(first) / day)
}

// countdown is the time left until t in hours and minutes, in the same format
// as in the script.
func (c clock) countdown(t time.Time) string {
	left := max(0, t.Sub(c.now)).Truncate(time.Minute)
	hours, minutes := int(left/time.Hour), int(left%time.Hour/time.Minute)
	switch {
	case hours > 0:
		return strconv.Itoa(hours) + " h " + strconv.Itoa(minutes) + " min"
	case minutes > 0:
		return strconv.Itoa(minutes) + " min"
	}
	return "less than a minute"
}

// plural returns a count with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// lifeChoice is a choice of the expiry. Date is the resulting date, or empty.
type lifeChoice struct{ Value, Text, Date string }

// lives are the lifetimes of a key, in days.
var lives = []choice{{"7", "7 days"}, {"30", "30 days"}, {"90", "90 days"}, {"365", "1 year"}, {untilDate, "Other date"}, {never, "Never"}}

const (
	// defaultLife ends forgotten keys, but does not force frequent rotation.
	defaultLife = "90"

	// never is the life of a key that does not expire.
	never = "0"

	// untilDate is the life of a key that expires at the end of a day.
	untilDate = "date"

	// unchanged keeps the expiry of a key.
	unchanged = "unchanged"

	// maxYears is the longest life of a key with an expiry.
	maxYears = 100
)

func (f *keyForm) lives() []choice {
	if f.Key == nil || f.Key.Ends == nil {
		return lives
	}
	return append([]choice{{unchanged, "No change"}}, lives...)
}

// lives returns the choices of the expiry with their dates.
func (v *visit) lives(f *keyForm) (choices []lifeChoice) {
	for _, c := range f.lives() {
		life := lifeChoice{Value: c.Value, Text: c.Text}
		if days, err := strconv.Atoi(c.Value); err == nil && c.Value != never {
			life.Date = v.clock.now.Add(time.Duration(days) * day).In(v.clock.zone).Format(shortDate)
		}
		choices = append(choices, life)
	}
	return choices
}

// expiry returns when the key of the form expires: after ttl, at a time, or
// never if both are empty.
func (v *visit) expiry(f *keyForm) (ttl string, at *time.Time) {
	switch f.Life {
	case never, unchanged:
		return "", nil
	case untilDate:
		end, problem := v.clock.endOf(f.Until)
		if problem != "" {
			f.refuse("expires", problem)
		}
		return "", new(end.Add(-time.Second)) // at midnight, pages would show the next day
	}
	return f.Life + "d", nil
}

// endOf returns when the day that a person typed ends, or what is wrong with it.
func (c clock) endOf(text string) (end time.Time, problem string) {
	last, err := calendar.ParseDay(text)
	if err != nil {
		return end, "Enter a date such as " + c.now.AddDate(1, 0, 0).In(c.zone).Format(time.DateOnly) + "."
	}
	switch end = calendar.In(c.zone).EndOf(last); {
	case !end.After(c.now):
		problem = "The date is in the past. Enter today or a later date."
	case end.After(c.now.AddDate(maxYears, 0, -1)):
		problem = "The date must be within " + strconv.Itoa(maxYears) + " years."
	}
	return end, problem
}
