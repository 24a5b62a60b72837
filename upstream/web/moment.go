package web

import (
	"strconv"
	"time"
)

// clock tells times as people do, at one moment and in one zone.
type clock struct {
	now  time.Time
	zone *time.Location
}

// moment is a time three ways: for machines, in full, and in the fewest
// words.
type moment struct{ Exact, Full, Text string }

const (
	day       = 24 * time.Hour
	fewDays   = 7
	someDays  = 60
	fullTime  = "2 Jan 2006, 15:04:05 MST"
	shortDate = "2 Jan 2006"
)

// moment describes a time. What is near is told by its distance from now,
// what is far by its date.
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
	case days < fewDays:
		return plural(days, "day") + " ago"
	}
	return t.Format(shortDate)
}

func (c clock) ahead(t time.Time) string {
	left := t.Sub(c.now)
	switch days := c.days(c.now, t); {
	case left < time.Hour:
		return "in " + plural(max(1, int(left/time.Minute)), "minute")
	case left < day:
		return "in " + plural(int(left/time.Hour), "hour")
	case days <= 1:
		return "tomorrow"
	case days < someDays:
		return "in " + plural(days, "day")
	}
	return t.Format(shortDate)
}

// days counts midnights between two times. Counting hours would call
// 23:00 of the day before yesterday "yesterday" at one in the morning.
func (c clock) days(from, to time.Time) int {
	y, m, d := from.In(c.zone).Date()
	first := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	y, m, d = to.In(c.zone).Date()
	return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Sub(first) / day)
}

// countdown is the time left until t in hours and minutes, as the script
// goes on counting it.
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

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
