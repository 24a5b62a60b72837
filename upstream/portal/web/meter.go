package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

const (
	// warnPercent is the part of a limit at which the meter warns.
	warnPercent = 80

	// maxKeyMeters is the maximum number of limits of keys on My usage. The
	// page of a key has all of its limits.
	maxKeyMeters = 6
)

// meters are the limits of an account or of a key. The limit with the greatest
// used part comes first.
type meters struct {
	Bars  []meter
	Paces []pace
	// More is the number of limits of keys that are not in Bars.
	More int
}

// meter is what was used of a limit that is no pace, or of an endpoint
// without one.
type meter struct {
	// Name is the endpoint, Key the name of the key whose own limit this is,
	// or empty. Target has the endpoint and the period. Change is the address of the
	// page that changes the limit, or empty.
	Name, Key, Target, Change string
	// Period is the period in words.
	Period string
	// Resets is nil without a limit. Countdown is the time left, or empty if
	// more than a day is left.
	Resets    *moment
	Countdown string
	// State is ok, near, full, over above a soft limit, unlimited, or closed for a
	// limit of 0.
	State             string
	Used, Limit, Left string
	// Returned is how many calls of today were given back, or empty.
	Returned string
	// Note says what is special about the limit, or is empty.
	Note string
	// Lasts says until when the rest lasts, or is empty.
	Lasts string
	// Percent is a whole number from 0 to 100, Width the length of the bar
	// in percent.
	Percent int
	Width   string

	share float64
}

// pace is a limit that has no bar. Key is empty for one of the account. Target and
// Change are those of a meter.
type pace struct{ Name, Key, Target, Text, Change string }

// meters returns the limits of a usage document.
func (v *visit) meters(document api.UsageDocument) meters {
	var all, keys meters
	for _, e := range document.Endpoints {
		first := len(all.Bars)
		if !slices.ContainsFunc(e.Limits, func(l api.UsageLimit) bool { return api.IsQuota(l.Period) }) {
			all.Bars = append(all.Bars, meter{
				Name: e.Endpoint, Target: e.Endpoint + "/" + api.Day, Period: "Today", State: "unlimited", Used: humanize.Comma(e.Used), share: unlimitedShare,
			})
		}
		all.addOf(v.clock, document, e.Endpoint, e.Unit, e.Limits)
		if e.Credited > 0 {
			all.Bars[first].Returned = humanize.Comma(e.Credited)
		}
	}
	all.addOf(v.clock, document, api.All, "", document.Limits)
	for _, k := range document.Keys {
		keys.addKey(v.clock, k)
	}
	keys.sort()
	shown := min(maxKeyMeters, len(keys.Bars))
	all.More = len(keys.Bars) - shown
	all.Bars = append(all.Bars, keys.Bars[:shown]...)
	all.Paces = append(all.Paces, keys.Paces[:min(maxKeyMeters, len(keys.Paces))]...)
	all.sort()
	return all
}

// keyMeters returns the limits of one key.
func (v *visit) keyMeters(document api.UsageDocument, id string) (all meters) {
	for _, k := range document.Keys {
		if k.ID == id {
			k.Name = ""
			all.addKey(v.clock, k)
		}
	}
	all.sort()
	return all
}

// addOf adds limits of the account, and how long they last.
func (m *meters) addOf(c clock, document api.UsageDocument, endpoint, unit string, limits []api.UsageLimit) {
	pace := newRecentPace(document, endpoint)
	for _, l := range limits {
		m.add(c, endpoint, "", unit, l)
		if lasts := c.forecast(l, pace, document.PlanUntil); lasts != "" {
			m.Bars[len(m.Bars)-1].Lasts = lasts
		}
	}
}

func (m *meters) addKey(c clock, key api.UsageKey) {
	for _, l := range key.Limits {
		m.add(c, l.Endpoint, key.Name, "", l.UsageLimit)
	}
}

func (m *meters) add(c clock, endpoint, key, unit string, l api.UsageLimit) {
	if l.Calls {
		unit = "calls"
	}
	if !api.IsQuota(l.Period) {
		text := unitText(l.Limit, unit, l.Period)
		if l.Used != nil {
			text += ", " + humanize.Comma(*l.Used) + " now"
		}
		m.Paces = append(m.Paces, pace{Name: covers(endpoint), Key: key, Target: target(endpoint, l), Text: text})
		return
	}
	m.Bars = append(m.Bars, newMeter(c, endpoint, key, unit, l))
}

// target is what an override of a limit replaces, empty for a limit of calls, which
// none replaces.
func target(endpoint string, l api.UsageLimit) string {
	if l.Calls {
		return ""
	}
	return endpoint + "/" + l.Period
}

func (m *meters) sort() {
	slices.SortStableFunc(m.Bars, func(a, b meter) int { return cmp.Compare(b.share, a.share) })
}

// The shares of meters without a bar, which come last.
const (
	closedShare    = -1
	unlimitedShare = -2
)

// newMeter returns the meter of a limit that is no pace.
func newMeter(c clock, endpoint, key, unit string, l api.UsageLimit) meter {
	if l.Limit == 0 && l.Soft == nil && l.Period != api.Total { // also tomorrow
		return meter{Name: covers(endpoint), Key: key, Target: target(endpoint, l), State: "closed", share: closedShare}
	}
	m := meter{
		Name: covers(endpoint), Key: key, Target: target(endpoint, l), State: "ok",
		Period: map[string]string{api.Day: "Today", api.Week: "This week", api.Month: "This month", api.Total: "In total"}[l.Period],
		Used:   humanize.Comma(*l.Used), Limit: inUnit(l.Limit, unit), Left: humanize.Comma(*l.Remaining),
		share: min(100, 100*float64(*l.Used)/float64(max(1, l.Limit))), Note: c.note(l),
	}
	if l.ResetsAt != nil {
		m.Resets = new(c.moment(*l.ResetsAt))
		m.Resets.Text = l.ResetsAt.In(c.zone).Format(dayAndMonth)
		if l.Period == api.Day || l.ResetsAt.Sub(c.now) < day {
			m.Countdown = c.countdown(*l.ResetsAt)
		}
	}
	m.Percent, m.Width = int(m.share), strconv.FormatFloat(m.share, 'f', 1, 64)
	switch {
	case l.Soft != nil && *l.Remaining == 0:
		m.State = "over"
	case *l.Remaining == 0:
		m.State = "full"
	case m.share >= warnPercent:
		m.State = "near"
	}
	return m
}

// When is the period within a sentence.
func (m meter) When() string { return strings.ToLower(m.Period) }

// inUnit returns a number with what it counts, which is empty for calls.
func inUnit(n int64, unit string) string {
	text := humanize.Comma(n)
	if n == 1 && unit == "calls" {
		unit = "call"
	}
	if unit != "" {
		text += " " + unit
	}
	return text
}

// note says what a soft limit and a total are.
func (c clock) note(l api.UsageLimit) string {
	switch {
	case l.Soft != nil && l.Overage != nil && *l.Overage > 0:
		return humanize.Comma(*l.Overage) + " above what is included. Calls are refused from " + humanize.Comma(*l.Soft) + " on."
	case l.Soft != nil:
		return "Above what is included, calls are counted as overage, up to " + humanize.Comma(*l.Soft) + "."
	case l.Period != api.Total:
		return ""
	}
	note := "It does not renew."
	for _, u := range l.TopUps {
		if u.ExpiresAt != nil {
			note += " " + humanize.Comma(u.Left) + " of it end on " + u.ExpiresAt.Add(-1).In(c.zone).Format(shortDate) + "."
		}
	}
	return note
}
