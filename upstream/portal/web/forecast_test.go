package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// usedOn returns a document whose days, the last of them today, used these calls of
// convert.
func usedOn(calls ...int64) api.UsageDocument {
	d := api.UsageDocument{}
	for i, n := range calls {
		date := storyTime.AddDate(0, 0, i-len(calls)+1).Format(time.DateOnly)
		d.Days = append(d.Days, api.UsageDay{Day: date, Calls: map[string]int64{"convert": n}})
	}
	return d
}

func TestRecentPace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		used []int64
		want recentPace
	}{
		"no history":               {nil, recentPace{}},
		"no calls":                 {[]int64{0, 0, 0}, recentPace{}},
		"a customer of today":      {[]int64{0, 0, 90}, recentPace{}},
		"one day alone":            {[]int64{0, 90}, recentPace{}},
		"a customer of yesterday":  {[]int64{0, 90, 10}, recentPace{90, 1}},
		"three days":               {[]int64{0, 30, 0, 60, 1}, recentPace{30, 3}},
		"a week with its weekend":  {[]int64{999, 10, 10, 10, 10, 10, 0, 0, 0}, recentPace{50. / 7, 7}},
		"more today than a week":   {[]int64{7, 7, 7, 7, 7, 7, 7, 7, 777}, recentPace{(6*7 + 777.) / 7, 7}},
		"less today":               {[]int64{7, 7, 7, 7, 7, 7, 7, 7, 6}, recentPace{7, 7}},
		"nothing in a week":        {[]int64{50, 0, 0, 0, 0, 0, 0, 0, 0}, recentPace{0, 7}},
		"begins to use more today": {[]int64{1, 0, 0, 0, 0, 0, 0, 0, 70}, recentPace{10, 7}},
	} {
		if got := newRecentPace(usedOn(c.used...), "convert"); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	d := usedOn(70, 70, 0)
	for i := range 2 {
		d.Days[i].Calls["rates"], d.Days[i].Calls[gateEndpoint] = 10, 500
		d.Days[i].Credited = map[string]int64{"convert": 20}
	}
	for endpoint, want := range map[string]float64{"convert": 50, "rates": 10, gateEndpoint: 500, "history": 0, api.All: 60} {
		if got := newRecentPace(d, endpoint).mean; got != want {
			t.Errorf("%s: got %v a day, want %v", endpoint, got, want)
		}
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	berlin := storyVisit("starter").clock.zone
	evening := clock{storyTime, berlin} // 20 November, 19:47 in Berlin
	midnight := clock{time.Date(2026, 11, 20, 0, 0, 0, 0, berlin), berlin}
	limit := func(period string, left int64, edit ...func(*api.UsageLimit)) api.UsageLimit {
		l := api.UsageLimit{Period: period, Limit: 100_000, Used: new(100_000 - left), Remaining: &left}
		if period == api.Week || period == api.Month {
			l.ResetsAt = new(time.Date(2026, 12, 1, 0, 0, 0, 0, berlin))
		}
		for _, e := range edit {
			e(&l)
		}
		return l
	}
	topUps := func(ups ...api.TopUpLeft) func(*api.UsageLimit) {
		return func(l *api.UsageLimit) { l.TopUps = ups }
	}
	up := func(left int64, days int) api.TopUpLeft {
		return api.TopUpLeft{Left: left, ExpiresAt: new(midnight.now.AddDate(0, 0, days))}
	}
	week := recentPace{100, 7}
	for name, c := range map[string]struct {
		clock clock
		limit api.UsageLimit
		pace  recentPace
		until string
	}{
		"a month":                          {evening, limit(api.Month, 500), week, "25 Nov"},
		"a week":                           {evening, limit(api.Week, 500), week, "25 Nov"},
		"a total":                          {evening, limit(api.Total, 3400), week, "24 Dec"},
		"the rest of today":                {evening, limit(api.Month, 10), week, "20 Nov"},
		"at midnight the day before":       {midnight, limit(api.Month, 500), week, "24 Nov"},
		"and one call more":                {midnight, limit(api.Month, 501), week, "25 Nov"},
		"in the zone of the gate":          {clock{evening.now, time.UTC}, limit(api.Total, 21), week, "20 Nov"},
		"which has its own midnight":       {evening, limit(api.Total, 21), week, "21 Nov"},
		"just before the reset":            {midnight, limit(api.Month, 1099), week, "30 Nov"},
		"until the reset":                  {midnight, limit(api.Month, 1100), week, ""},
		"another year":                     {evening, limit(api.Total, 5000), week, "9 Jan 2027"},
		"a year":                           {midnight, limit(api.Total, 36_500), week, "19 Nov 2027"},
		"more than a year":                 {midnight, limit(api.Total, 36_501), week, ""},
		"very much more":                   {midnight, limit(api.Total, 1_000_000_000_000_000), recentPace{1. / 7, 7}, ""},
		"used up":                          {evening, limit(api.Month, 0), week, ""},
		"no pace":                          {evening, limit(api.Month, 500), recentPace{0, 7}, ""},
		"a day":                            {evening, limit(api.Day, 1), week, ""},
		"a limit without an end":           {evening, api.UsageLimit{Period: "minute", Limit: 5}, week, ""},
		"calls at once":                    {evening, limit(api.Concurrent, 2), week, ""},
		"calls, not costs":                 {evening, limit(api.Total, 500, func(l *api.UsageLimit) { l.Calls = true }), week, ""},
		"a soft limit: what is included":   {evening, limit(api.Month, 500, func(l *api.UsageLimit) { l.Soft = new(int64(900_000)) }), week, "25 Nov"},
		"top-ups that are used up in time": {midnight, limit(api.Total, 1000, topUps(up(300, 4), up(200, 6))), week, "29 Nov"},
		"a top-up that ends before":        {midnight, limit(api.Total, 1000, topUps(up(600, 2))), week, "25 Nov"},
		"two that end before":              {midnight, limit(api.Total, 1000, topUps(up(600, 2), up(300, 3))), week, "23 Nov"},
		"a top-up without an end":          {midnight, limit(api.Total, 1000, topUps(api.TopUpLeft{Left: 900})), week, "29 Nov"},
	} {
		want := ""
		if c.until != "" {
			want = "At the pace of the last 7 days, what is left lasts until " + c.until + "."
		}
		if got := c.clock.forecast(c.limit, c.pace, nil); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := evening.forecast(limit(api.Total, 3400), recentPace{100, 1}, nil); got != "At the pace of the last day, what is left lasts until 24 Dec." {
		t.Errorf("one day: got %q", got)
	}
	ends := time.Date(2026, 12, 24, 0, 0, 0, 0, berlin)
	if got := evening.forecast(limit(api.Total, 3400), week, &ends); got != "" {
		t.Errorf("a plan that ends before: got %q", got)
	}
}

// Only limits of the account have a forecast: the page does not know the days of keys.
func TestForecastOfMeters(t *testing.T) {
	t.Parallel()
	v := storyVisit("business")
	document := runningOut()
	month := document.Endpoints[1].Limits[1]
	document.Keys = []api.UsageKey{{Name: "ci", Limits: []api.UsageKeyLimit{{Endpoint: "convert", UsageLimit: month}}}}
	var got []string
	for _, m := range v.meters(document).Bars {
		if m.Lasts != "" {
			_, last, _ := strings.Cut(m.Lasts, " until ")
			got = append(got, m.Name+m.Key+"/"+m.Period+" "+last)
		}
	}
	want := []string{"All endpoints/This month 23 Nov.", "convert/This month 28 Nov.", "history/This month 21 Nov.", "currencies/In total 30 Nov."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
