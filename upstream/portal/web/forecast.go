package web

import (
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

const (
	// paceDays is the maximum number of days in a recentPace: a week includes
	// one weekend, on every day of the week.
	paceDays = 7

	// maxForecast is the maximum number of days ahead: a week tells nothing about
	// a later time.
	maxForecast = 365
)

// recentPace is what an account uses on a day, as the mean of its last days.
type recentPace struct {
	mean float64
	days int
}

// newRecentPace returns the pace of calls to an endpoint or to all endpoints: the mean
// of the full days since the first call. Today replaces the oldest day if the mean is
// then higher: a customer who starts to use more today must see it today.
func newRecentPace(document api.UsageDocument, endpoint string) recentPace {
	used := make([]int64, len(document.Days))
	for i, d := range document.Days {
		for name, n := range d.Calls {
			if name == endpoint || endpoint == api.All && name != gateEndpoint {
				used[i] += n - d.Credited[name]
			}
		}
	}
	first, today := slices.IndexFunc(used, func(n int64) bool { return n > 0 }), len(used)-1
	if first < 0 || first == today {
		return recentPace{}
	}
	days := min(paceDays, today-first)
	most := max(sumOf(used[today-days:today]), sumOf(used[today-days+1:]))
	return recentPace{float64(most) / float64(days), days}
}

// forecast says until when the rest of a limit lasts at a pace. It is empty if the
// limit resets or the plan ends before that, and for a limit of calls: days have costs.
func (c clock) forecast(l api.UsageLimit, pace recentPace, planUntil *time.Time) string {
	if !slices.Contains([]string{api.Week, api.Month, api.Total}, l.Period) || l.Calls || *l.Remaining == 0 || pace.mean == 0 {
		return ""
	}
	left, days := *l.Remaining, 0.0
	for _, u := range l.TopUps { // calls use top-ups in this order, then the plan
		end := days + float64(u.Left)/pace.mean
		if u.ExpiresAt != nil {
			end = min(end, max(days, float64(u.ExpiresAt.Sub(c.now))/float64(day)))
		}
		left, days = left-u.Left, end
	}
	days += float64(left) / pace.mean
	if days > maxForecast {
		return ""
	}
	end := c.now.Add(time.Duration(days * float64(day)))
	for _, other := range []*time.Time{l.ResetsAt, planUntil} {
		if other != nil && !end.Before(*other) {
			return ""
		}
	}
	last, format := end.Add(-1).In(c.zone), dayAndMonth
	if last.Year() != c.now.In(c.zone).Year() {
		format = shortDate
	}
	of := "day"
	if pace.days > 1 {
		of = plural(pace.days, of)
	}
	return "At the pace of the last " + of + ", what is left lasts until " + last.Format(format) + "."
}
