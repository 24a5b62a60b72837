package web

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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

	// refusedRows is how many rows of refused calls are read at once.
	refusedRows = 1000

	usageFilePath = usagePath + "/days.csv"
)

// usageView is My usage.
type usageView struct {
	Plan, Zone string
	Status     usageStatus
	Resets     moment
	// ResetClock is the time of day at which the day ends, Countdown the time
	// left.
	ResetClock, Countdown string
	Limits                meters
	Shown                 usageQuery
	Chart                 *chart
	Calls                 callList
	Offer                 *offer
}

// usageQuery is what a person chose on My usage.
type usageQuery struct {
	Days int
	// Endpoint is the only one in the chart. It is empty for all.
	Endpoint string
}

// usageDays are the lengths of the chart.
var usageDays = [...]int{7, 30, 90}

// readUsageQuery reads the query of My usage. Unknown values are ignored.
func readUsageQuery(query url.Values, endpoints []api.Endpoint) usageQuery {
	chosen := usageQuery{Days: historyDays}
	if days, err := strconv.Atoi(query.Get("days")); err == nil && slices.Contains(usageDays[:], days) {
		chosen.Days = days
	}
	if slices.ContainsFunc(endpoints, func(e api.Endpoint) bool { return e.Name == query.Get("endpoint") }) {
		chosen.Endpoint = query.Get("endpoint")
	}
	return chosen
}

// Choices are the lengths that can be chosen.
func (usageQuery) Choices() []int { return usageDays[:] }

// With returns the link to another length, and Of to another endpoint.
func (q usageQuery) With(days int) string { return usageQuery{days, q.Endpoint}.link() }

// Of returns the link to the chart of an endpoint, or of all if it is empty.
func (q usageQuery) Of(endpoint string) string { return usageQuery{q.Days, endpoint}.link() }

// CSV returns the link to the table as a file.
func (q usageQuery) CSV() string { return usageFilePath + "?" + q.values().Encode() }

func (q usageQuery) link() string { return usagePath + "?" + q.values().Encode() }

func (q usageQuery) values() url.Values {
	values := url.Values{"days": {strconv.Itoa(q.Days)}}
	if q.Endpoint != "" {
		values.Set("endpoint", q.Endpoint)
	}
	return values
}

func (s *site) usage(w http.ResponseWriter, r *http.Request, v *visit) error {
	chosen := readUsageQuery(r.URL.Query(), v.plans.Endpoints)
	document, refused, err := s.usageAndRefused(r.Context(), v, chosen.Days)
	if err != nil {
		return err
	}
	p := v.page("My usage", "usage", v.usageView(document, refused, chosen))
	p.Updates = chosen.link() + "&" + backgroundParameter + "=1"
	return s.views.show(w, http.StatusOK, "usage", p)
}

// usageFile answers with the table of the days as CSV (RFC 4180).
func (s *site) usageFile(w http.ResponseWriter, r *http.Request, v *visit) error {
	chosen := readUsageQuery(r.URL.Query(), v.plans.Endpoints)
	document, refused, err := s.usageAndRefused(r.Context(), v, chosen.Days)
	if err != nil {
		return err
	}
	data := newChartData(document, refused, chosen.Endpoint)
	var text bytes.Buffer
	file := csv.NewWriter(&text)
	file.UseCRLF = true
	rows := [][]string{slices.Concat([]string{"day"}, data.names, []string{refusedName})}
	for i, day := range slices.Backward(data.days) {
		if data.admitted(i)+data.refused[i] == 0 {
			continue
		}
		row := []string{day}
		for _, counts := range append(slices.Clone(data.counts), data.refused) {
			row = append(row, strconv.FormatInt(counts[i], 10))
		}
		rows = append(rows, row)
	}
	if err := file.WriteAll(rows); err != nil {
		return fmt.Errorf("writing usage as CSV: %w", err)
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
	w.Header().Set("Content-Disposition", `attachment; filename="usage-`+document.Day+`.csv"`)
	// If this fails, the client is gone; ignore the error.
	_, _ = w.Write(text.Bytes())
	return nil
}

// usageAndRefused gets the usage of the account and its refused calls.
func (s *site) usageAndRefused(ctx context.Context, v *visit, days int) (api.UsageDocument, refusedCalls, error) {
	document, err := s.usageOf(ctx, v, days)
	if err != nil {
		return document, nil, err
	}
	refused, err := s.refusedOf(ctx, v, days)
	return document, refused, err
}

// notRefused are the codes of failures of the gate and the service. The gate
// does not record these calls either.
var notRefused = []string{"internal", "unavailable", "upstream_timeout", "upstream_unreachable"}

// refusedOf gets the refused calls of the account, by a limit or a permission.
func (s *site) refusedOf(ctx context.Context, v *visit, days int) (refusedCalls, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	refused := refusedCalls{}
	for after := ""; ; {
		page, err := s.Gate.Refused(ctx, days, v.who.ID, after, refusedRows)
		if err != nil {
			return nil, err
		}
		for _, row := range page.Refused {
			if slices.Contains(notRefused, row.Code) {
				continue
			}
			if refused[row.Day] == nil {
				refused[row.Day] = map[string]int64{}
			}
			refused[row.Day][row.Endpoint] += row.Calls
		}
		if page.Next == nil {
			return refused, nil
		}
		after = *page.Next
	}
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

func (v *visit) usageView(document api.UsageDocument, refused refusedCalls, chosen usageQuery) usageView {
	limits := v.meters(document)
	return usageView{
		Plan: document.Plan, Zone: document.Timezone,
		Status: newStatus(limits.Bars, len(document.Endpoints)),
		Resets: v.clock.moment(document.ResetsAt), ResetClock: document.ResetsAt.In(v.clock.zone).Format("15:04"),
		Countdown: v.clock.countdown(document.ResetsAt),
		Shown:     chosen,
		Chart:     newChart(newChartData(document, refused, chosen.Endpoint)),
		Calls:     v.callList(document, callFilter{}, 0, fewCalls),
		Limits:    limits,
		Offer:     v.offer(),
	}
}
