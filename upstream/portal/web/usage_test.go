package web

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

func TestMeters(t *testing.T) {
	t.Parallel()
	c := storyVisit("starter").clock
	for _, l := range []struct {
		used, limit int64
		state       string
		percent     int
	}{
		{0, 1000, "ok", 0}, {799, 1000, "ok", 79}, {800, 1000, "near", 80}, {999, 1000, "near", 99},
		{1000, 1000, "full", 100}, {0, 0, "closed", 0}, {3, 0, "closed", 0}, {70, 50, "full", 100}, // after a change to a smaller plan
		{1, 1_000_000_000_000_000, "ok", 0},
	} {
		m := newMeter(c, "convert", "", "", storyUsedLimit(api.Day, l.limit, l.used))
		if m.State != l.state || m.Percent != l.percent {
			t.Errorf("%d of %d: got %s at %d %%, want %s at %d %%", l.used, l.limit, m.State, m.Percent, l.state, l.percent)
		}
	}
}

// A day counts down. A month has a date, until its last day.
func TestMeterResets(t *testing.T) {
	t.Parallel()
	c := storyVisit("starter").clock // 20 November, 19:47
	lastDay := clock{c.now.AddDate(0, 0, 10), c.zone}
	for _, want := range []struct {
		clock                   clock
		period                  string
		text, resets, countdown string
	}{
		{c, api.Day, "Today", "21 Nov", "4 h 12 min"},
		{c, api.Month, "This month", "1 Dec", ""},
		{lastDay, api.Month, "This month", "1 Dec", "4 h 12 min"},
	} {
		m := newMeter(want.clock, "convert", "", "", storyUsedLimit(want.period, 10, 1))
		if m.Period != want.text || m.Resets.Text != want.resets || m.Countdown != want.countdown {
			t.Errorf("%s: got %q, %q, %q, want %+v", want.period, m.Period, m.Resets.Text, m.Countdown, want)
		}
	}
}

// The limit of which the greatest part is used comes first, whatever it is
// of. Endpoints without a limit come last.
func TestMeterOrder(t *testing.T) {
	t.Parallel()
	v := storyVisit("business")
	document := monthlyUsage(1_900_000, 1_250_000)
	document.Keys = keyUsage(3, 600).Keys[2:]
	all := v.meters(document)
	var got []string
	for _, m := range all.Bars {
		got = append(got, m.Name+"/"+m.Key+"/"+m.Period+"/"+m.Used)
	}
	want := []string{
		"convert//This month/1,900,000",
		"rates//This month/300,000",
		"convert/nightly report/Today/600", // as much as rates, which the configuration has before
		"All endpoints//This month/1,250,000",
		"convert//Today/40,000",
		"convert/nightly report/This month/200",
		"currencies//Today/50",
		"history//Today/20",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	paces := []pace{
		{"history", "", "history/minute", "at most 60 a minute", ""}, {"All endpoints", "", "all/second", "at most 50 a second", ""},
		{"convert", "nightly report", "convert/second", "at most 1,250 a second", ""}, {"convert", "nightly report", "convert/minute", "at most 1,750 a minute", ""},
	}
	if !slices.Equal(all.Paces, paces) {
		t.Errorf("got paces %q, want %q", all.Paces, paces)
	}
}

// Calls at once are no bar: they have no end. An endpoint with such a limit only is
// unlimited.
func TestConcurrentMeter(t *testing.T) {
	t.Parallel()
	plan := api.Plan{Limits: map[string]*int64{"chat": nil}, MoreLimits: []api.PlanLimit{{Endpoint: "chat", Period: api.Concurrent, Limit: 4, Calls: true}}}
	if got := planLimits(plan, "chat", "tokens"); !slices.Equal(got, []string{"Unlimited", "at most 4 calls at once"}) {
		t.Errorf("got %q", got)
	}
	all := storyVisit("business").meters(api.UsageDocument{Endpoints: []api.UsageEndpoint{{
		Endpoint: "chat", Unit: "tokens", Used: 7, Limits: []api.UsageLimit{{Period: api.Concurrent, Limit: 4, Used: new(int64(2)), Remaining: new(int64(2)), Calls: true}},
	}}})
	if len(all.Bars) != 1 || all.Bars[0].State != "unlimited" || !slices.Equal(all.Paces, []pace{{Name: "chat", Text: "at most 4 calls at once, 2 now"}}) {
		t.Errorf("got %+v", all)
	}
}

// Calls of today that were given back are on the first meter of their endpoint,
// also without a limit of a day.
func TestReturnedCalls(t *testing.T) {
	t.Parallel()
	document := monthlyUsage(5, 5)
	for i := range document.Endpoints {
		document.Endpoints[i].Credited = int64(i + 1)
	}
	var got []string
	for _, m := range storyVisit("business").meters(document).Bars {
		got = append(got, m.Name+"/"+m.Period+"/"+m.State+"/"+m.Returned)
	}
	want := []string{"rates/This month/ok/3", "convert/Today/ok/2", "convert/This month/ok/", "All endpoints/This month/ok/", "currencies/Today/unlimited/1", "history/Today/unlimited/4"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A limit of 0 is closed, today and tomorrow: it has no bar and no reset.
func TestClosedLimits(t *testing.T) {
	t.Parallel()
	bars := storyVisit("starter").meters(closedUsage()).Bars
	var closed []string
	for _, m := range bars {
		if m.State == "closed" {
			closed = append(closed, m.Name+"/"+m.Key)
		}
		if m.State == "full" || m.State == "closed" && m.Resets != nil {
			t.Errorf("got %+v", m)
		}
	}
	if want := []string{"batch/", "convert/ci"}; !slices.Equal(closed, want) {
		t.Errorf("closed are %q, want %q", closed, want)
	}
	if got := limitText(0, api.Day); got != "Closed" {
		t.Errorf("a limit of 0 is %q", got)
	}
}

// An account with very many limits of keys sees those that will end first.
func TestManyKeyMeters(t *testing.T) {
	t.Parallel()
	document := keyUsage(40, 100)
	document.Keys[39].Limits[0].UsageLimit = storyUsedLimit(api.Day, 10, 10)
	all := storyVisit("starter").meters(document)
	if all.More != 80-maxKeyMeters || len(all.Bars) != 6+maxKeyMeters {
		t.Errorf("got %d bars and %d more", len(all.Bars), all.More)
	}
	if first := all.Bars[0]; first.Key != document.Keys[39].Name || first.State != "full" {
		t.Errorf("got %+v first, want the limit that is used up", first)
	}
	if one := storyVisit("starter").keyMeters(document, document.Keys[38].ID); len(one.Bars) != 2 || one.Bars[0].Key != "" {
		t.Errorf("one key has %+v", one.Bars)
	}
}

// The cost of a call in words.
func TestCostText(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]api.Endpoint{
		"":               {Cost: 1},
		"a call costs 5": {Cost: 5},
		"a call costs 1 for each element of conversions":                            {Cost: 1, CostMember: new("conversions")},
		"a call costs what its answer tells; 4,096 must be left":                    {Cost: 4096, CostAnswer: &api.CostAnswer{Header: "Tollgate-Cost"}},
		"a call costs what its answer tells; what it can cost at most must be left": {Cost: 4096, CostAnswer: &api.CostAnswer{Members: []string{"n"}, Bound: []string{"max_tokens"}}},
	} {
		if got := costText(e); got != want {
			t.Errorf("%+v: got %q, want %q", e, got, want)
		}
	}
}

// The limits of a plan in words.
func TestPlanLimits(t *testing.T) {
	t.Parallel()
	plan := api.Plan{
		Limits: map[string]*int64{"convert": new(int64(1000)), "rates": nil, "history": nil, "batch": nil},
		MoreLimits: []api.PlanLimit{
			{Endpoint: "convert", Period: "second", Limit: 10}, {Endpoint: "convert", Period: "month", Limit: 20_000},
			{Endpoint: "history", Period: "hour", Limit: 100}, {Endpoint: "batch", Period: "month", Limit: 0},
			{Endpoint: api.All, Period: "day", Limit: 2000}, {Endpoint: api.All, Period: "minute", Limit: 60},
		},
	}
	for endpoint, want := range map[string][]string{
		"convert": {"1,000 a day", "20,000 a month", "at most 10 a second"},
		"rates":   {"Unlimited"},
		"history": {"Unlimited", "at most 100 an hour"},
		"batch":   {"Closed"},
		"other":   nil,
		api.All:   {"2,000 a day", "at most 60 a minute"},
	} {
		if got := planLimits(plan, endpoint, ""); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", endpoint, got, want)
		}
	}
	plan.Limits = nil
	if got := planLimits(plan, api.All, ""); got != nil {
		t.Errorf("without access: got %q", got)
	}
}

// The recent calls are the newest 20, all that are known, or those that were
// refused. The text counts them, and never says that there was no refused call
// before those that are known.
func TestCallList(t *testing.T) {
	t.Parallel()
	v, none := storyVisit("starter"), storyUsage(nil, 40).RecentCalls
	for i := range none {
		none[i].Code = ""
	}
	for name, c := range map[string]struct {
		query, text string
		calls, rows int
		more        bool
	}{
		"newest":  {"", "Shown: 20 of the last 40 calls, 4 of them refused.", 40, 20, true},
		"all":     {"calls=all", "Shown: 40 of the last 40 calls, 4 of them refused.", 40, 40, false},
		"refused": {"calls=refused", "Refused: 4 of the last 40 calls.", 40, 4, false},
		"one":     {"", "Shown: 1 of the last 1 call, none of them refused.", 1, 1, false},
		"empty":   {"calls=refused", "", 0, 0, false},
	} {
		query, _ := url.ParseQuery(c.query)
		list := v.callList(storyUsage(nil, c.calls).RecentCalls, query)
		if len(list.Rows) != c.rows || list.More != c.more || c.calls > 0 && list.Text() != c.text {
			t.Errorf("%s: got %d rows, more %t, %q", name, len(list.Rows), list.More, list.Text())
		}
		for _, row := range list.Rows {
			if c.query == "calls=refused" && row.Code == "" {
				t.Errorf("%s: shows a call that was not refused: %+v", name, row)
			}
		}
	}
	list := v.callList(none, url.Values{"calls": {"refused"}})
	if len(list.Rows) != 0 || list.Text() != "Refused: none of the last 40 calls." {
		t.Errorf("without refused calls: got %d rows, %q", len(list.Rows), list.Text())
	}
}

func TestRoundUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1_000_000_000_000_000_000).Draw(t, "n")
		top := roundUp(n)
		if top < n || top%2 != 0 || n > 1 && top > 2*n {
			t.Errorf("roundUp(%d) is %d", n, top)
		}
	})
}

func TestChart(t *testing.T) {
	t.Parallel()
	document := api.UsageDocument{
		Endpoints: []api.UsageEndpoint{{Endpoint: "convert", Limit: new(int64(2000))}, {Endpoint: "rates", Limit: new(int64(1_000_000))}},
		Days: []api.UsageDay{
			{Day: "2026-11-15", Calls: map[string]int64{"convert": 0, "rates": 0}}, // a Sunday
			{Day: "2026-11-16", Calls: map[string]int64{"convert": 1500, "rates": 100}},
		},
	}
	c := newChart(newChartData(document, nil))
	if c.Top != "1,600" || c.Middle != "800" || c.Series[0].Bars != "M15+0V-938" || c.Series[1].Bars != "M15-938V-1000" {
		t.Errorf("got %+v", c)
	}
	if want := "Calls a day from 15 Nov to 16 Nov: 1,600 admitted, 0 refused, most on 16 Nov with 1,600"; c.Summary != want {
		t.Errorf("got %q, want %q", c.Summary, want)
	}
	if got := strings.Join(c.Columns[1].Cells, " "); got != "1,500 100" || c.Series[0].Total != "1,500" {
		t.Errorf("got %q and %q", got, c.Series[0].Total)
	}
	if len(c.Rows) != 1 || c.Rows[0].Short != "16 Nov" || c.Columns[0].Tick != "" || c.Columns[1].Tick != "16 Nov" || c.Ticks != "M15 0v40" {
		t.Errorf("got the rows %+v and the ticks %s", c.Rows, c.Ticks)
	}
	if newChart(chartData{}) != nil {
		t.Error("a chart of nothing")
	}

	document.Days[1].Credited = map[string]int64{"convert": 1500}
	if c = newChart(newChartData(document, nil)); c.Series[0].Total != "0" || c.Series[2].Total != "1,500" || c.Columns[1].Admitted != "1,600" || strings.Join(c.Endpoints, " ") != "convert rates Given back" {
		t.Errorf("with calls that were given back: got %+v and %+v", c.Series, c.Columns)
	}
	document.Days[1].Credited = nil

	refused := refusedCalls{"2026-11-15": 7, "2026-11-16": 5}
	if c = newChart(newChartData(document, refused)); c.Series[2].Total != "12" || c.Series[2].Class != "refused" || c.Columns[0].Refused != "7" {
		t.Errorf("with refused calls: got %+v", c.Series)
	}
}
