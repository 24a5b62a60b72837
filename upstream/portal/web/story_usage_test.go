package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// usageStories are the states of My usage.
func usageStories() map[string]story {
	busyDay := map[string]float64{"currencies": 0.12, "convert": 0.83, "rates": 0.41, "history": 1, "batch": 0.24, "usage": 0.05}
	return map[string]story{
		"usage":           usageStory("starter", storyUsage(map[string]float64{"currencies": 0.12, "convert": 0.43, "rates": 0.41, "history": 0.6, "batch": 0.24, "usage": 0.05}, 40)),
		"usage-refused":   refusedStory(storyUsage(nil, 60)),
		"usage-none":      refusedStory(storyUsage(nil, 4)),
		"usage-empty":     usageStory("starter", storyUsage(nil, 0)),
		"usage-warn":      usageStory("starter", storyUsage(busyDay, 40)),
		"usage-month":     usageStory("business", monthlyUsage(1_200_000, 1_500_000)),
		"usage-all-up":    usageStory("business", monthlyUsage(1_700_000, 2_500_000)),
		"usage-override":  overrideStory(),
		"usage-key":       usageStory("starter", keyUsage(1, 900)),
		"usage-many-keys": usageStory("starter", keyUsage(100, 700)),
		"usage-free":      usageStory("free", api.UsageDocument{Plan: "free", Timezone: "Europe/Berlin"}),
		"usage-closed":    usageStory("starter", closedUsage()),
		"usage-kinds":     usageStory("starter", kindsUsage()),
		"usage-runs-out":  usageStory("business", runningOut()),
	}
}

// kindsUsage has a limit of each kind.
func kindsUsage() api.UsageDocument {
	d := storyUsage(nil, 0)
	limit := func(period string, limit, used int64, ends time.Duration) api.UsageLimit {
		l := api.UsageLimit{Period: period, Limit: limit, Used: &used, Remaining: new(max(0, limit-used))}
		if ends > 0 {
			l.ResetsAt = new(storyTime.Add(ends))
		}
		return l
	}
	d.PlanUntil, d.Then = new(storyTime.Add(20*day)), "free"
	soft, above := limit(api.Month, 1000, 700, 24*day), limit(api.Week, 300, 420, 3*day)
	soft.Soft, soft.Overage, above.Soft, above.Overage = new(int64(5000)), new(int64(0)), new(int64(900)), new(int64(120))
	total, calls := limit(api.Total, 61_000, 12_400, 0), limit(api.Day, 60, 12, 8*time.Hour)
	total.TopUps = []api.TopUpLeft{{Left: 4600, ExpiresAt: new(storyTime.Add(40 * day))}, {Left: 20_000}}
	atOnce := limit(api.Concurrent, 1, 1, 0)
	calls.Calls, atOnce.Calls = true, true
	d.Endpoints = []api.UsageEndpoint{
		{Endpoint: "convert", Limits: []api.UsageLimit{soft, above}}, {Endpoint: "chat", Unit: "tokens", Limits: []api.UsageLimit{total, calls, {Period: "minute", Limit: 20_000}, atOnce}},
		{Endpoint: "empty", Limits: []api.UsageLimit{limit(api.Total, 0, 0, 0)}},
	}
	return d
}

// runningOut is usage of the plan business that ends before its limits renew.
func runningOut() api.UsageDocument {
	d := monthlyUsage(1_998_000, 2_498_800)
	total, soft := storyUsedLimit(api.Total, 500, 100), storyUsedLimit(api.Month, 400, 390)
	total.ResetsAt, soft.Soft, soft.Overage = nil, new(int64(900)), new(int64(0))
	total.TopUps = []api.TopUpLeft{{Left: 300, ExpiresAt: new(storyTime.Add(4 * day))}}
	d.Endpoints[0].Limits, d.Endpoints[3].Limits = []api.UsageLimit{total}, []api.UsageLimit{soft}
	return d
}

func usageStory(plan string, d api.UsageDocument) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit(plan)
		p := v.page("My usage", "usage", v.usageView(d, storyRefused(d), nil))
		p.Updates = "/usage?background=1"
		return s.views.show(w, http.StatusOK, "usage", p)
	}
}

// overrideStory is My usage with overrides and calls that were given back.
func overrideStory() story {
	d := storyUsage(map[string]float64{"convert": 0.43, "rates": 0.41}, 4)
	d.Endpoints[1].Credited = 120
	convert := &d.Endpoints[1].Limits[0]
	convert.Limit, convert.Remaining = 5000, new(5000-*convert.Used) // of the override
	d.Days[29].Credited, d.Days[20].Credited = map[string]int64{"convert": 120}, map[string]int64{"convert": 30, "rates": 9}
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("starter")
		view := v.usageView(d, nil, nil)
		view.Overrides = storyOverrides()
		return s.views.show(w, http.StatusOK, "usage", v.page("My usage", "usage", view))
	}
}

// refusedStory shows the refused calls only.
func refusedStory(d api.UsageDocument) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("starter")
		view := v.usageView(d, nil, url.Values{"calls": {"refused"}})
		return s.views.show(w, http.StatusOK, "usage", v.page("My usage", "usage", view))
	}
}

// storyOverrides are overrides with and without an end.
func storyOverrides() []overrideRow {
	return storyVisit("starter").overrideRows([]api.Override{
		{Endpoint: "convert", Period: api.Day, Limit: new(int64(5000)), ExpiresAt: new(storyTime.Add(9 * day))},
		{Endpoint: api.All, Period: "second", Limit: new(int64(3))}, {Endpoint: "history", Period: api.Month},
	})
}

// storyRefused returns some refused calls on some of the days.
func storyRefused(d api.UsageDocument) refusedCalls {
	refused := refusedCalls{}
	for i, day := range d.Days {
		if n := int64(i*11%17) - 9; n > 0 && len(d.RecentCalls) > 0 {
			refused[day.Day] = 3 * n
		}
	}
	return refused
}
