package web

import (
	"strconv"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

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
