package web

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// usageStories are the states of My usage.
func usageStories() map[string]story {
	busyDay := map[string]float64{"currencies": 0.12, "convert": 0.83, "rates": 0.41, "history": 1, "batch": 0.24, "usage": 0.05}
	return map[string]story{
		"usage":           usageStory("starter", storyUsage(map[string]float64{"currencies": 0.12, "convert": 0.43, "rates": 0.41, "history": 0.6, "batch": 0.24, "usage": 0.05}, 40)),
		"usage-empty":     usageStory("starter", storyUsage(nil, 0)),
		"usage-warn":      usageStory("starter", storyUsage(busyDay, 40)),
		"usage-month":     usageStory("business", monthlyUsage(1_200_000, 1_500_000)),
		"usage-month-up":  usageStory("business", monthlyUsage(2_000_000, 2_412_000)),
		"usage-all-up":    usageStory("business", monthlyUsage(1_700_000, 2_500_000)),
		"usage-override":  usageStory("starter", overriddenUsage()),
		"usage-key":       usageStory("starter", keyUsage(1, 900)),
		"usage-key-up":    usageStory("starter", keyUsage(2, 1000)),
		"usage-many-keys": usageStory("starter", keyUsage(100, 700)),
		"usage-unused":    unusedStory,
		"usage-free":      usageStory("free", api.UsageDocument{Plan: "free", Timezone: "Europe/Berlin"}),
		"usage-7":         chartStory(7, "", 7),
		"usage-90":        chartStory(90, "", 90),
		"usage-endpoint":  chartStory(30, "history", 30),
		"usage-above":     chartStory(30, "convert", 30),
		"usage-closed":    usageStory("starter", closedUsage()),
		"usage-burst":     usageStory("starter", burstUsage()),
		"usage-none": func(s *site, w http.ResponseWriter) error {
			v := storyVisit("starter")
			view := v.usageView(storyUsageOf(nil, 0, 7), nil, usageQuery{7, "history"})
			return s.views.show(w, http.StatusOK, "usage", v.page("My usage", "usage", view))
		},
		"calls":         callsStory(storyUsage(nil, 100), callFilter{}),
		"calls-burst":   callsStory(burstUsage(), callFilter{}),
		"calls-codes":   callsStory(codesUsage(), callFilter{}),
		"calls-refused": callsStory(storyUsage(nil, 100), callFilter{Key: "ci", Status: statusRefused}),
		"calls-none":    callsStory(storyUsage(nil, 100), callFilter{Key: "none"}),
	}
}

func usageStory(plan string, d api.UsageDocument) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit(plan)
		p := v.page("My usage", "usage", v.usageView(d, storyRefused(d), usageQuery{Days: historyDays}))
		p.Updates = "/usage?background=1"
		return s.views.show(w, http.StatusOK, "usage", p)
	}
}

func unusedStory(s *site, w http.ResponseWriter) error {
	d, err := storyVisit("starter").unused(historyDays)
	if err != nil {
		return err
	}
	return usageStory("starter", d)(s, w)
}

func callsStory(d api.UsageDocument, filter callFilter) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("starter")
		return s.views.show(w, http.StatusOK, "calls", v.page("Recent calls", "usage", v.callList(d, filter, 0, callsPerPage)))
	}
}

// chartStory is My usage with a choice of the chart, of an account with a
// number of days.
func chartStory(days int, endpoint string, old int) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("starter")
		d := storyUsageOf(map[string]float64{"currencies": 0.12, "convert": 0.43, "rates": 0.41, "history": 0.6, "batch": 0.24, "usage": 0.05}, 40, old)
		if endpoint == "convert" {
			for i := range d.Days {
				d.Days[i].Calls["convert"] /= 60
			}
		}
		p := v.page("My usage", "usage", v.usageView(d, storyRefused(d), usageQuery{Days: days, Endpoint: endpoint}))
		return s.views.show(w, http.StatusOK, "usage", p)
	}
}

// storyRefused returns some refused calls on some of the days.
func storyRefused(d api.UsageDocument) refusedCalls {
	refused := refusedCalls{}
	for i, day := range d.Days {
		if n := int64(i*11%17) - 9; n > 0 && len(d.RecentCalls) > 0 {
			refused[day.Day] = map[string]int64{"history": n, "convert": 2 * n}
		}
	}
	return refused
}
