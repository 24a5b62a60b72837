package web

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// fewKeyCalls is the number of recent calls on the page of a key.
const fewKeyCalls = 10

// keyCalls is what a key was used for.
type keyCalls struct {
	Today, Month keyCount
	// Chart is nil without calls.
	Chart *keyChart
	// Recent are the last calls, newest first.
	Recent []callRow
}

// keyCount is the calls of some days in words. Refused is empty for none.
type keyCount struct{ Calls, Refused string }

// keyChart is the calls of a key on each day. Admitted and Refused are paths
// of SVG.
type keyChart struct {
	Width, Height     int
	Admitted, Refused string
	First, Last       string
	// Summary describes the chart in a sentence.
	Summary string
	// Days are the days with calls, newest first.
	Days []keyDayRow
}

type keyDayRow struct{ Day, Short, Calls, Refused string }

// keyDays gets the calls of a key on the last days.
func (s *site) keyDays(ctx context.Context, v *visit, id string) ([]api.KeyDay, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	usage, err := s.Gate.KeyUsage(ctx, v.who.ID, id, api.MaxKeyUsageDays)
	return usage.Days, err
}

// keyCalls returns the calls of a key. The days are oldest first.
func (v *visit) keyCalls(id string, document api.UsageDocument, days []api.KeyDay) keyCalls {
	var recent []api.UsageCall
	for _, call := range document.RecentCalls {
		if call.KeyID == id {
			call.Key = "" // the page has the name
			recent = append(recent, call)
		}
	}
	var today, month api.KeyDay
	for _, d := range days {
		month.Calls += d.Calls
		month.Refused += d.Refused
		today = d
	}
	rows := v.callRows(recent)
	return keyCalls{
		Today: newKeyCount(today), Month: newKeyCount(month),
		Chart: newKeyChart(days, month), Recent: rows[:min(len(rows), fewKeyCalls)],
	}
}

func newKeyCount(d api.KeyDay) keyCount {
	c := keyCount{Calls: humanize.Comma(d.Calls)}
	if d.Refused > 0 {
		c.Refused = humanize.Comma(d.Refused)
	}
	return c
}

// newKeyChart returns the chart of the days, nil if sum has no calls.
func newKeyChart(days []api.KeyDay, sum api.KeyDay) *keyChart {
	if sum.Calls+sum.Refused == 0 {
		return nil
	}
	var most int64
	for _, d := range days {
		most = max(most, d.Calls+d.Refused)
	}
	c := &keyChart{
		Width: len(days) * dayWidth, Height: chartHeight,
		First: shortDay(days[0].Day), Last: shortDay(days[len(days)-1].Day),
	}
	var admitted, refused strings.Builder
	for i, d := range days {
		x, middle := i*dayWidth+dayWidth/2, level(d.Calls, most)
		if d.Calls > 0 {
			fmt.Fprintf(&admitted, "M%d 0V%d", x, middle)
		}
		if d.Refused > 0 {
			fmt.Fprintf(&refused, "M%d%+dV%d", x, middle, level(d.Calls+d.Refused, most))
		}
		if d.Calls+d.Refused > 0 {
			row := keyDayRow{d.Day, shortDay(d.Day), humanize.Comma(d.Calls), humanize.Comma(d.Refused)}
			c.Days = append([]keyDayRow{row}, c.Days...)
		}
	}
	c.Admitted, c.Refused = admitted.String(), refused.String()
	c.Summary = "Calls a day from " + c.First + " to " + c.Last + ": " + humanize.Comma(sum.Calls) + " admitted, " +
		humanize.Comma(sum.Refused) + " refused, at most " + humanize.Comma(most) + " on a day"
	return c
}
