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
		"usage-all-up":    usageStory("business", monthlyUsage(1_700_000, 2_500_000)),
		"usage-key":       usageStory("starter", keyUsage(1, 900)),
		"usage-many-keys": usageStory("starter", keyUsage(100, 700)),
		"usage-free":      usageStory("free", api.UsageDocument{Plan: "free", Timezone: "Europe/Berlin"}),
		"usage-closed":    usageStory("starter", closedUsage()),
	}
}

func usageStory(plan string, d api.UsageDocument) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit(plan)
		p := v.page("My usage", "usage", v.usageView(d, storyRefused(d)))
		p.Updates = "/usage?background=1"
		return s.views.show(w, http.StatusOK, "usage", p)
	}
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
