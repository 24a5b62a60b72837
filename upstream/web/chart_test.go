package web

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

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
	c := newChart(newChartData(document, nil, ""))
	if c.Top != "1,600" || c.Middle != "800" || c.Series[0].Bars != "M15+0V-938" || c.Series[1].Bars != "M15-938V-1000" || c.Limit != nil {
		t.Errorf("got %+v", c)
	}
	if want := "Calls a day from 15 Nov to 16 Nov: 1,600 admitted, 0 refused, most on 16 Nov with 1,600"; c.Summary != want {
		t.Errorf("got %q, want %q", c.Summary, want)
	}
	if got := strings.Join(c.Columns[1].Cells, " "); got != "1,500 100" || c.Series[0].Total != "1,500" {
		t.Errorf("got %q and %q", got, c.Series[0].Total)
	}
	if len(c.Rows) != 1 || c.Rows[0].Day != "2026-11-16" || c.Ticks != "M15 0v40" {
		t.Errorf("got the rows %+v and the ticks %s", c.Rows, c.Ticks)
	}
	if newChart(chartData{}) != nil {
		t.Error("a chart of nothing")
	}

	refused := refusedCalls{"2026-11-15": {"convert": 3, "rates": 4}, "2026-11-16": {"rates": 5}}
	c = newChart(newChartData(document, refused, "convert"))
	if len(c.Series) != 2 || c.Series[1].Total != "3" || c.Series[1].Class != "refused" || c.Columns[0].Refused != "3" {
		t.Errorf("of one endpoint: got %+v", c.Series)
	}
	if c.Limit == nil || c.Limit.Y != "-1000" || c.Top != "2,000" {
		t.Errorf("the limit is at %+v below %s", c.Limit, c.Top)
	}
	if c = newChart(newChartData(document, refused, "rates")); c.Limit.Y != "" || c.Limit.Text != "1,000,000 a day" {
		t.Errorf("a limit far above the bars is at %+v", c.Limit)
	}
	if c = newChart(newChartData(document, refused, "")); c.Series[2].Total != "12" {
		t.Errorf("of all endpoints: got %+v", c.Series)
	}
}

// The labels of 7 days are every second day, with the month where it begins;
// those of 30 days the Mondays, those of 90 days every third Monday.
func TestTicks(t *testing.T) {
	t.Parallel()
	for days, want := range map[int][]string{
		7:  {"28 Nov", "30", "2 Dec", "4"},
		30: {"9 Nov", "16 Nov", "23 Nov", "30 Nov"},
		90: {"21 Sep", "12 Oct", "2 Nov", "23 Nov"},
	} {
		var dates, got []string
		for i := range days {
			dates = append(dates, time.Date(2026, 12, 5-days+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly))
		}
		for i := range dates {
			if text := tick(i, dates); text != "" {
				got = append(got, text)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d days: got %q, want %q", days, got, want)
		}
	}
}

// Many endpoints share the last colour: those with the fewest calls.
func TestChartGroups(t *testing.T) {
	t.Parallel()
	day := api.UsageDay{Day: "2026-11-16", Calls: map[string]int64{}}
	document := api.UsageDocument{Days: []api.UsageDay{day}}
	for i := range 20 {
		name := fmt.Sprint("e", i)
		document.Endpoints = append(document.Endpoints, api.UsageEndpoint{Endpoint: name})
		day.Calls[name] = int64(i)
	}
	var got []string
	for _, s := range newChart(newChartData(document, nil, "")).Series {
		got = append(got, s.Name+" "+s.Total+" "+s.Class)
	}
	want := []string{"e15 15 c0", "e16 16 c1", "e17 17 c2", "e18 18 c3", "e19 19 c4", "Others 105 c5"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The chart is as long as chosen.
func TestUsageQuery(t *testing.T) {
	t.Parallel()
	endpoints := storyPlans().Endpoints
	for query, want := range map[string]usageQuery{
		"": {Days: 30}, "days=7": {Days: 7}, "days=90&endpoint=convert": {90, "convert"}, "days=8": {Days: 30}, "days=x&endpoint=nothing": {Days: 30},
	} {
		values, err := url.ParseQuery(query)
		if got := readUsageQuery(values, endpoints); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", query, got, err, want)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	v := storyVisit("starter")
	for _, c := range []struct {
		document api.UsageDocument
		kind     string
		text     string
		resets   string
	}{
		{storyUsage(nil, 0), "ok", "All endpoints have calls left.", ""},
		{storyUsage(map[string]float64{"convert": 0.8}, 0), "near", "1 of 6 endpoints almost used up: convert.", "4 h 12 min"},
		{storyUsage(map[string]float64{"convert": 0.9, "history": 1, "batch": 1}, 0), "over", "2 of 6 endpoints used up: history, batch.", "4 h 12 min"},
		{monthlyUsage(2_000_000, 100), "over", "1 of 4 endpoints used up: convert.", ""},
		{monthlyUsage(100, 2_500_000), "over", "1 limit used up: All endpoints.", ""},
		{keyUsage(1, 1000), "over", "1 limit used up: convert with key ci.", "4 h 12 min"},
		{closedUsage(), "near", "1 of 6 endpoints closed: batch.", ""},
	} {
		got := newStatus(v.meters(c.document).Bars, len(c.document.Endpoints))
		if got.Kind != c.kind || got.Text != c.text || got.Countdown != c.resets || (got.Resets == nil) != (c.kind == "ok" || strings.Contains(c.text, "closed")) {
			t.Errorf("got %+v, want %s: %s %s", got, c.kind, c.text, c.resets)
		}
	}
}

// A key is found by its id, whatever its name was.
func TestCallFilterByID(t *testing.T) {
	t.Parallel()
	document := api.UsageDocument{RecentCalls: []api.UsageCall{
		{Key: "new", KeyID: "key_1"}, {Key: "other", KeyID: "key_2"}, {Key: "old", KeyID: "key_1"}, {Key: "new", KeyID: "key_3"},
	}}
	list := storyVisit("starter").callList(document, callFilter{Key: "key_1"}, 0, callsPerPage)
	if len(list.Rows) != 2 || list.Rows[0].Key != "new" || list.Rows[1].Key != "old" || !slices.Contains(list.Keys, "key_1") {
		t.Errorf("got %+v", list)
	}
}

func TestCallFilter(t *testing.T) {
	t.Parallel()
	v, document := storyVisit("starter"), storyUsage(nil, 18)
	for _, c := range []struct {
		filter callFilter
		want   int
	}{
		{callFilter{}, 18}, {callFilter{Key: "ci"}, 9}, {callFilter{Key: "other"}, 0}, {callFilter{Endpoint: "rates"}, 0},
		{callFilter{Status: "2xx"}, 10}, {callFilter{Status: "4xx"}, 4}, {callFilter{Status: statusRefused}, 2}, {callFilter{Status: "5xx", Key: "ci"}, 1},
	} {
		list := v.callList(document, c.filter, 0, callsPerPage)
		if len(list.Rows) != c.want || list.All != 18 || !slices.Equal(list.Keys, []string{"ci", "shop backend"}) {
			t.Errorf("%+v: got %d rows of %d, keys %q", c.filter, len(list.Rows), list.All, list.Keys)
		}
		for _, row := range list.Rows {
			if (row.Code == "") != (row.Duration != "") {
				t.Errorf("got %+v", row)
			}
		}
	}
}
