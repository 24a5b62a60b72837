package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

const (
	// historyDays is the number of days in the chart.
	historyDays = 30

	// fewCalls is the number of recent calls on My usage.
	fewCalls = 15

	// callsPerPage is the number of calls on a page of recent calls.
	callsPerPage = 50
)

// usageView is My usage.
type usageView struct {
	Plan, Zone string
	Resets     moment
	// ResetClock is the time of day at which the day ends, Countdown the time
	// left.
	ResetClock, Countdown string
	Limits                meters
	Chart                 *chart
	Calls                 []callRow
	// More is true if older calls are not listed, Older if newer calls are
	// not.
	More, Older bool
	Offer       *offer
}

// callRow is one recent call.
type callRow struct {
	At           moment
	Method, Path string
	Status       int
	// Kind is ok, near or over, by the class of the status.
	Kind, Meaning string
	Duration      string
	Key           string
}

func (s *site) usage(w http.ResponseWriter, r *http.Request, v *visit) error {
	document, err := s.usageOf(r.Context(), v, historyDays)
	if err != nil {
		return err
	}
	p := v.page("My usage", "usage", v.usageView(document))
	p.Updates = usagePath + "?" + backgroundParameter + "=1"
	return s.views.show(w, http.StatusOK, "usage", p)
}

// calls lists all recent calls, on two pages.
func (s *site) calls(w http.ResponseWriter, r *http.Request, v *visit) error {
	document, err := s.usageOf(r.Context(), v, 0)
	if err != nil {
		return err
	}
	latest := min(callsPerPage, len(document.RecentCalls))
	first, rest := document.RecentCalls[:latest], document.RecentCalls[latest:]
	view := usageView{Calls: v.callRows(first), More: len(rest) > 0}
	if r.URL.Query().Has("older") {
		view = usageView{Calls: v.callRows(rest), Older: true}
	}
	return s.views.show(w, http.StatusOK, "calls", v.page("Recent calls", "usage", view))
}

// usageOf gets the usage of the account. An account that is unknown to the
// gate has used nothing.
func (s *site) usageOf(ctx context.Context, v *visit, days int) (api.UsageDocument, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	document, err := s.Gate.Usage(ctx, v.who.ID, days)
	if isRefused(err, http.StatusNotFound) {
		return v.unused(days)
	}
	return document, err
}

// unused returns the usage of an account without calls.
func (v *visit) unused(days int) (api.UsageDocument, error) {
	dates, err := calendar.New(v.plans.Timezone)
	if err != nil {
		return api.UsageDocument{}, fmt.Errorf("loading the gate's zone: %w", err)
	}
	today, month := dates.At(v.clock.now), dates.Month(v.clock.now)
	document := api.UsageDocument{
		Account: v.who.ID, Plan: v.plan.Name, Timezone: v.plans.Timezone,
		Day: today.Day.String(), ResetsAt: today.End,
	}
	ends := map[string]time.Time{perDay: today.End, perMonth: month.End}
	for _, e := range v.plans.Endpoints {
		if limit, listed := v.plan.Limits[e.Name]; listed {
			document.Endpoints = append(document.Endpoints, api.UsageEndpoint{
				Endpoint: e.Name, Method: e.Method, Path: e.Path, Limit: limit, Remaining: limit,
				Limits: unusedLimits(v.plan, e.Name, ends),
			})
		}
	}
	document.Limits = unusedLimits(v.plan, api.All, ends)
	for ago := days - 1; ago >= 0; ago-- {
		document.Days = append(document.Days, api.UsageDay{Day: (today.Day - calendar.Day(ago)).String()})
	}
	return document, nil
}

// unusedLimits returns a plan's limits of an endpoint or of all endpoints
// together. ends has the end of the day and of the month.
func unusedLimits(plan api.Plan, endpoint string, ends map[string]time.Time) (limits []api.UsageLimit) {
	if daily := plan.Limits[endpoint]; daily != nil {
		limits = append(limits, unusedLimit(perDay, *daily, ends))
	}
	for _, l := range plan.MoreLimits {
		if l.Endpoint == endpoint {
			limits = append(limits, unusedLimit(l.Period, l.Limit, ends))
		}
	}
	return limits
}

func unusedLimit(period string, limit int64, ends map[string]time.Time) api.UsageLimit {
	l := api.UsageLimit{Period: period, Limit: limit}
	if !isPace(period) {
		l.Used, l.Remaining, l.ResetsAt = new(int64(0)), &limit, new(ends[period])
	}
	return l
}

func (v *visit) usageView(document api.UsageDocument) usageView {
	return usageView{
		Plan: document.Plan, Zone: document.Timezone,
		Resets: v.clock.moment(document.ResetsAt), ResetClock: document.ResetsAt.In(v.clock.zone).Format("15:04"),
		Countdown: v.clock.countdown(document.ResetsAt),
		Chart:     newChart(document.Endpoints, document.Days),
		Calls:     v.callRows(document.RecentCalls[:min(fewCalls, len(document.RecentCalls))]),
		More:      len(document.RecentCalls) > fewCalls,
		Limits:    v.meters(document),
		Offer:     v.offer(),
	}
}

func (v *visit) callRows(calls []api.UsageCall) []callRow {
	rows := make([]callRow, 0, len(calls))
	for _, c := range calls {
		rows = append(rows, callRow{
			At: v.clock.moment(c.At.Time), Method: c.Method, Path: c.Path,
			Status: c.Status, Kind: statusKind(c.Status), Meaning: http.StatusText(c.Status),
			Duration: strconv.FormatFloat(c.DurationMS, 'f', 1, 64), Key: c.Key,
		})
	}
	return rows
}

func statusKind(status int) string {
	switch {
	case status < 400:
		return "ok"
	case status < 500:
		return "near"
	}
	return "over"
}
