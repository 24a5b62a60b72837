package web

import (
	"cmp"
	"slices"
	"strconv"

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

// meter is what was used of a limit of a day or a month, or of an endpoint
// without one.
type meter struct {
	// Name is the endpoint, Key the name of the key whose own limit this is,
	// or empty. Target has the endpoint and the period. Change is the address of the
	// page that changes the limit, or empty.
	Name, Key, Target, Change string
	// Period is the day or the month, in words.
	Period string
	// Resets is nil without a limit. Countdown is the time left, or empty if
	// more than a day is left.
	Resets    *moment
	Countdown string
	// State is ok, near, full, unlimited, or closed for a limit of 0.
	State             string
	Used, Limit, Left string
	// Returned is how many calls of today were given back, or empty.
	Returned string
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
		if !slices.ContainsFunc(e.Limits, func(l api.UsageLimit) bool { return !api.IsPace(l.Period) }) {
			all.Bars = append(all.Bars, meter{
				Name: e.Endpoint, Target: e.Endpoint + "/" + api.Day, Period: "Today", State: "unlimited", Used: humanize.Comma(e.Used), share: unlimitedShare,
			})
		}
		for _, l := range e.Limits {
			all.add(v.clock, e.Endpoint, "", l)
		}
		if e.Credited > 0 {
			all.Bars[first].Returned = humanize.Comma(e.Credited)
		}
	}
	for _, l := range document.Limits {
		all.add(v.clock, api.All, "", l)
	}
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

func (m *meters) addKey(c clock, key api.UsageKey) {
	for _, l := range key.Limits {
		m.add(c, l.Endpoint, key.Name, l.UsageLimit)
	}
}

func (m *meters) add(c clock, endpoint, key string, l api.UsageLimit) {
	if l.Used == nil || l.Remaining == nil || l.ResetsAt == nil {
		m.Paces = append(m.Paces, pace{Name: covers(endpoint), Key: key, Target: endpoint + "/" + l.Period, Text: limitText(l.Limit, l.Period)})
		return
	}
	m.Bars = append(m.Bars, newMeter(c, endpoint, key, l))
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
func newMeter(c clock, endpoint, key string, l api.UsageLimit) meter {
	if l.Limit == 0 { // also tomorrow
		return meter{Name: covers(endpoint), Key: key, Target: endpoint + "/" + l.Period, State: "closed", share: closedShare}
	}
	m := meter{
		Name: covers(endpoint), Key: key, Target: endpoint + "/" + l.Period, Period: "Today", State: "ok", Resets: new(c.moment(*l.ResetsAt)),
		Used: humanize.Comma(*l.Used), Limit: humanize.Comma(l.Limit), Left: humanize.Comma(*l.Remaining),
		share: min(100, 100*float64(*l.Used)/float64(l.Limit)),
	}
	if l.Period == api.Month {
		m.Period = "This month"
	}
	m.Resets.Text = l.ResetsAt.In(c.zone).Format(dayAndMonth)
	if l.Period == api.Day || l.ResetsAt.Sub(c.now) < day {
		m.Countdown = c.countdown(*l.ResetsAt)
	}
	m.Percent, m.Width = int(m.share), strconv.FormatFloat(m.share, 'f', 1, 64)
	switch {
	case *l.Remaining == 0:
		m.State = "full"
	case m.share >= warnPercent:
		m.State = "near"
	}
	return m
}
