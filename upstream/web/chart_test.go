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
	c := newChart(
		[]api.UsageEndpoint{{Endpoint: "convert"}, {Endpoint: "rates"}},
		[]api.UsageDay{
			{Day: "2026-11-19", Calls: map[string]int64{"convert": 0, "rates": 0}},
			{Day: "2026-11-20", Calls: map[string]int64{"convert": 1500, "rates": 100}},
		})
	if c.Top != "1,600" || c.Middle != "800" || c.Series[0].Bars != "M11 6.2h8v93.8h-8z" || c.Series[1].Bars != "M11 0h8v6.2h-8z" {
		t.Errorf("got %+v", c)
	}
	if want := "Calls a day from 19 Nov to 20 Nov: 1,600 in all, most on 20 Nov with 1,600"; c.Summary != want {
		t.Errorf("got %q, want %q", c.Summary, want)
	}
	if got := c.Columns[1].Label; got != "20 Nov: 1,600, convert 1,500, rates 100" {
		t.Errorf("got %q", got)
	}
	if got := strings.Join(c.Columns[1].Cells, " "); got != "1,500 100" || c.Series[0].Total != "1,500" {
		t.Errorf("got %q and %q", got, c.Series[0].Total)
	}
	if newChart(nil, nil) != nil {
		t.Error("a chart of nothing")
	}
}
