package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// historyDays is the number of days in the chart.
const historyDays = 30

// usageView is My usage.
type usageView struct {
	Plan, Zone, Then string
	// PlanUntil is nil for a plan without an end.
	PlanUntil *moment
	Resets    moment
	// ResetClock is the time of day at which the day ends, Countdown the time
	// left.
	ResetClock, Countdown string
	Limits                meters
	Overrides             []overrideRow
	Chart                 *chart
	Calls                 callList
	Offer                 *offer
}

func (s *site) usage(w http.ResponseWriter, r *http.Request, v *visit) error {
	document, err := s.usageOf(r.Context(), v, historyDays)
	if err != nil {
		return err
	}
	refused, err := s.refusedOf(r.Context(), v, historyDays)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	view := v.usageView(document, sumBy(refused, func(r api.Refused) string { return r.Day }), query)
	if view.Overrides, err = s.overridesOf(r.Context(), v); err != nil {
		return err
	}
	p := v.page("My usage", "usage", view)
	p.Updates = usagePath + "?" + url.Values{backgroundParameter: {"1"}, "calls": query["calls"]}.Encode()
	return s.views.show(w, http.StatusOK, "usage", p)
}

// notRefused are the codes of failures of the gate and the service. The gate
// does not record these calls either.
var notRefused = []string{"internal", "unavailable", "upstream_timeout", "upstream_unreachable"}

// refusedOf gets the refused calls of the account, by a limit or a permission.
func (s *site) refusedOf(ctx context.Context, v *visit, days int) ([]api.Refused, error) {
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	rows, err := client.All(func(after string) ([]api.Refused, *string, error) {
		page, err := s.Gate.Refused(ctx, api.RefusedQuery{Days: days, Account: v.who.ID, After: after, Limit: client.PageSize})
		return page.Refused, page.Next, err
	})
	return slices.DeleteFunc(rows, func(r api.Refused) bool { return slices.Contains(notRefused, r.Code) }), err
}

// sumBy adds up refused calls by a part of their rows.
func sumBy[K comparable](rows []api.Refused, part func(api.Refused) K) map[K]int64 {
	sums := map[K]int64{}
	for _, row := range rows {
		sums[part(row)] += row.Calls
	}
	return sums
}

// usageOf gets the usage of the account. An account that is unknown to the
// gate has used nothing of its plan.
func (s *site) usageOf(ctx context.Context, v *visit, days int) (api.UsageDocument, error) {
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	document, err := s.Gate.Usage(ctx, v.who.ID, days)
	if errors.Is(err, api.ErrNotFound) {
		return v.unused(days), nil
	}
	return document, err
}

// unused returns the usage of an account without calls.
func (v *visit) unused(days int) api.UsageDocument {
	dates := calendar.In(v.clock.zone)
	today := dates.At(v.clock.now)
	month := dates.Span(today.Day.MonthFrom(1))
	document := api.UsageDocument{
		Account: v.who.ID, Plan: v.plan.Name, Timezone: v.plans.Timezone,
		Day: today.Day.String(), ResetsAt: today.End,
	}
	ends := map[string]time.Time{api.Day: today.End, api.Week: dates.Span(today.Day.Week()).End, api.Month: month.End}
	for _, e := range v.plans.Endpoints {
		if limit, listed := v.plan.Limits[e.Name]; listed {
			document.Endpoints = append(document.Endpoints, api.UsageEndpoint{
				Endpoint: e.Name, Method: e.Method, Path: e.Path, Limit: limit, Remaining: limit, Unit: e.Unit,
				Limits: unusedLimits(v.plan, e.Name, ends),
			})
		}
	}
	document.Limits = unusedLimits(v.plan, api.All, ends)
	for ago := days - 1; ago >= 0; ago-- {
		document.Days = append(document.Days, api.UsageDay{Day: (today.Day - calendar.Day(ago)).String()})
	}
	return document
}

// unusedLimits returns a plan's limits of an endpoint or of all endpoints
// together. ends has the end of each period of the calendar.
func unusedLimits(plan api.Plan, endpoint string, ends map[string]time.Time) (limits []api.UsageLimit) {
	if daily := plan.Limits[endpoint]; daily != nil {
		limits = append(limits, unusedLimit(api.PlanLimit{Period: api.Day, Limit: *daily}, ends))
	}
	for _, l := range plan.MoreLimits {
		if l.Endpoint == endpoint {
			limits = append(limits, unusedLimit(l, ends))
		}
	}
	return limits
}

func unusedLimit(of api.PlanLimit, ends map[string]time.Time) api.UsageLimit {
	l := api.UsageLimit{Period: of.Period, Limit: of.Limit, Calls: of.Calls}
	if api.IsQuota(of.Period) || of.Period == api.Concurrent {
		l.Used, l.Remaining = new(int64(0)), &of.Limit
	}
	if end, ends := ends[of.Period]; ends {
		l.ResetsAt = &end
	}
	if of.Soft > 0 {
		l.Soft = &of.Soft
	}
	return l
}

func (v *visit) usageView(document api.UsageDocument, refused refusedCalls, query url.Values) usageView {
	return usageView{
		Plan: document.Plan, PlanUntil: v.clock.momentOrNil(document.PlanUntil), Then: document.Then, Zone: document.Timezone,
		Resets: v.clock.moment(document.ResetsAt), ResetClock: document.ResetsAt.In(v.clock.zone).Format("15:04"),
		Countdown: v.clock.countdown(document.ResetsAt),
		Chart:     newChart(newChartData(document, refused)),
		Calls:     v.callList(document.RecentCalls, query),
		Limits:    v.meters(document),
		Offer:     v.offer(),
	}
}

// newestCalls is how many recent calls a page shows at first.
const newestCalls = 20

// callList is the recent calls of an account.
type callList struct {
	Rows []callRow
	// Known is how many calls the gate has, and Refused how many of them it
	// refused.
	Known, Refused int
	// Only says that the rows are the refused calls, More that older calls are
	// not shown.
	Only, More bool
}

// callList selects calls by the query of a page.
func (v *visit) callList(calls []api.UsageCall, query url.Values) callList {
	refused := slices.DeleteFunc(slices.Clone(calls), func(c api.UsageCall) bool { return c.Code == "" })
	list := callList{Known: len(calls), Refused: len(refused), Only: query.Get("calls") == "refused"}
	switch {
	case list.Only:
		calls = refused
	case query.Get("calls") != "all":
		list.More = len(calls) > newestCalls
		calls = calls[:min(len(calls), newestCalls)]
	}
	list.Rows = v.callRows(calls)
	return list
}

// Text says which of the calls are shown.
func (l callList) Text() string {
	refused, of := "none", " of the last "+plural(l.Known, "call")
	if l.Refused > 0 {
		refused = strconv.Itoa(l.Refused)
	}
	if l.Only {
		return "Refused: " + refused + of + "."
	}
	return "Shown: " + strconv.Itoa(len(l.Rows)) + of + ", " + refused + " of them refused."
}

// callRow is one recent call.
type callRow struct {
	At           moment
	Method, Path string
	Status       int
	// Code is why the gate refused the call. It is empty for an admitted call.
	Code string
	// Kind is ok, near or over, by the class of the status.
	Kind, Meaning string
	// Duration is empty for a refused call: it did not run.
	Duration string
	Cost     int64
	Key      string
}

// callRows returns the rows of calls, newest first.
func (v *visit) callRows(calls []api.UsageCall) []callRow {
	rows := make([]callRow, 0, len(calls))
	for _, c := range calls {
		row := callRow{
			At: v.clock.precise(c.At.Time), Method: c.Method, Path: c.Path, Code: c.Code,
			Status: c.Status, Kind: statusKind(c.Status), Meaning: http.StatusText(c.Status), Cost: c.Cost, Key: c.Key,
		}
		if c.Code == "" {
			row.Duration = strconv.FormatFloat(c.DurationMS, 'f', 1, 64)
		}
		rows = append(rows, row)
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

// maxKeyCalls is the number of recent calls on the page of a key.
const maxKeyCalls = 5

// keyCalls returns the last calls of a key, newest first.
func (v *visit) keyCalls(id string, document api.UsageDocument) []callRow {
	var recent []api.UsageCall
	for _, call := range document.RecentCalls {
		if call.KeyID == id {
			call.Key = "" // the page has the name
			recent = append(recent, call)
		}
	}
	rows := v.callRows(recent)
	return rows[:min(len(rows), maxKeyCalls)]
}
