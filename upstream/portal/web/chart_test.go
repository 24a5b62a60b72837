package web

import (
	"strings"
	"testing"

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
