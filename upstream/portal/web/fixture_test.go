package web

import (
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

func storyPlans() api.Plans {
	names := []string{"currencies", "convert", "rates", "history", "batch", "usage"}
	paths := []string{"/api/currencies", "/api/convert/{from}/{amount}/{to}", "/api/rates/{base}",
		"/api/history/{from}/{to}", "/api/convert/batch", "/api/usage"}
	limits := []int64{100, 1000, 1000, 100, 50, 1000}
	plans := api.Plans{Timezone: "Europe/Berlin", Plans: []api.Plan{
		{Name: "free"},
		{Name: "starter", Limits: map[string]*int64{}},
		{Name: "business", Limits: map[string]*int64{"currencies": nil, "convert": new(int64(100000)), "rates": nil, "history": nil},
			MoreLimits: []api.PlanLimit{
				{Endpoint: "convert", Period: "month", Limit: 2_000_000}, {Endpoint: "rates", Period: "month", Limit: 500_000},
				{Endpoint: "history", Period: "minute", Limit: 60}, {Endpoint: "history", Period: api.Concurrent, Limit: 1, Calls: true},
				{Endpoint: api.All, Period: "month", Limit: 2_500_000}, {Endpoint: api.All, Period: "second", Limit: 50},
			}},
	}}
	for i, name := range names {
		e := api.Endpoint{Name: name, Method: "GET", Path: paths[i], Patterns: []string{"GET " + paths[i]}, Ability: name}
		if name == "batch" {
			e.Method, e.Ability, e.CostMember = "POST", "convert", new("conversions")
		}
		if name == "history" {
			e.Cost = 5
		}
		plans.Endpoints = append(plans.Endpoints, e)
		plans.Plans[1].Limits[name] = new(limits[i])
	}
	return plans
}

// storyVisit is a visit of a person on a plan.
func storyVisit(plan string) *visit {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	v := &visit{plans: storyPlans(), clock: clock{storyTime, zone}}
	v.who.Email = "ada@example.com"
	v.who.Version = 1
	v.plan = planOf(v.plans, plan)
	return v
}

// storyKeys returns n keys in all states.
func storyKeys(n int) []api.Key {
	names := []string{"ci", "shop backend", "nightly report", "Ada's laptop", "old importer", "a name that is as long as a name may be, sixty-four characters!!"}
	keys := make([]api.Key, n)
	for i := range keys {
		k := api.Key{
			ID: fmt.Sprintf("key_%022d", i), Name: names[i%len(names)], Hint: fmt.Sprintf("tgk_…%04d", i*37%10000),
			Abilities: []string{"convert", "currencies", "history", "rates", "usage"},
			CreatedAt: storyTime.Add(-time.Duration(i*i) * 26 * time.Hour),
		}
		if i >= len(names) && i%len(names) < 5 {
			k.Name += fmt.Sprint(" ", i/len(names)+1)
		}
		switch i % len(names) {
		case 0:
			k.LastUsedAt, k.LastUsedFrom = new(storyTime.Add(-20*time.Second)), new("203.0.113.7")
		case 1:
			k.LastUsedAt, k.ExpiresAt = new(storyTime.Add(-3*time.Hour)), new(storyTime.Add(3*24*time.Hour))
			k.Abilities = []string{"convert", "rates"}
		case 2:
			k.ExpiresAt = new(storyTime.Add(80 * 24 * time.Hour))
			k.LastUsedAt, k.LastUsedFrom = new(storyTime.Add(-time.Hour)), new("2001:db8:85a3:8d3:1319:8a2e:370:7348")
			k.Limits, k.Addresses = storyLimits(4), []string{"203.0.113.0/24", "198.51.100.7", "2001:db8:85a3::/48"}
		case 3:
			k.LastUsedAt, k.ExpiresAt = new(storyTime.Add(-9*24*time.Hour)), new(storyTime.Add(-24*time.Hour))
		case 4:
			k.LastUsedAt, k.RevokedAt = new(storyTime.Add(-40*24*time.Hour)), new(storyTime.Add(-30*24*time.Hour))
		}
		keys[i] = k
	}
	return keys
}

// storyLimits returns n limits of a key.
func storyLimits(n int) []api.Limit {
	var limits []api.Limit
	for _, endpoint := range []string{"convert", api.All, "rates", "history", "currencies", "batch", "usage"} {
		for _, period := range []string{"day", "second", "month", "minute", "hour"} {
			limits = append(limits, api.Limit{Endpoint: endpoint, Period: period, Limit: int64(len(limits)*250 + 1000)})
		}
	}
	return limits[:n]
}

// storyUsedLimit is a limit of which a part is used.
func storyUsedLimit(period string, limit, used int64) api.UsageLimit {
	l := api.UsageLimit{Period: period, Limit: limit}
	if api.IsQuota(period) {
		l.Used, l.Remaining = &used, new(max(0, limit-used))
		l.ResetsAt = new(time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC))
	}
	if period == api.Month {
		l.ResetsAt = new(time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC))
	}
	return l
}

// storyUsage is a day of the plan starter on which each endpoint used a
// part of its limit, with a history and some calls.
func storyUsage(share map[string]float64, calls int) api.UsageDocument {
	plans := storyPlans()
	d := api.UsageDocument{Account: "acc_1", Plan: "starter", Timezone: plans.Timezone, Day: "2026-11-20",
		ResetsAt: time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)}
	for _, e := range plans.Endpoints {
		limit := plans.Plans[1].Limits[e.Name]
		row := api.UsageEndpoint{Endpoint: e.Name, Method: e.Method, Path: e.Path, Limit: limit}
		row.Used = int64(share[e.Name] * float64(*limit))
		row.Remaining = new(*limit - row.Used)
		row.Limits = []api.UsageLimit{storyUsedLimit(api.Day, *limit, row.Used)}
		d.Endpoints = append(d.Endpoints, row)
	}
	for i := range historyDays {
		counts := map[string]int64{}
		for j, e := range d.Endpoints {
			if len(share) > 0 {
				weekend := int64((i + 1) % 7 / 5 * 3)
				counts[e.Endpoint] = *e.Limit * int64((i*7+j*13)%23) / 40 / (1 + weekend)
			}
			if i == historyDays-1 {
				counts[e.Endpoint] = e.Used
			}
		}
		d.Days = append(d.Days, api.UsageDay{Day: storyTime.AddDate(0, 0, i-historyDays+1).Format(time.DateOnly), Calls: counts})
	}
	paths := []string{"/api/convert/EUR/10/USD", "/api/rates/GBP", "/api/convert/USD/1250.50/JPY", "/api/history/EUR/CHF"}
	for i := range calls {
		d.RecentCalls = append(d.RecentCalls, api.UsageCall{
			At: api.Millis{Time: storyTime.Add(-time.Duration(i*i*7) * time.Second)}, Endpoint: "convert", Method: "GET",
			Path: paths[i%4], Status: []int{200, 200, 200, 304, 404, 200, 429, 200, 502}[i%9],
			Cost: []int64{1, 1, 5, 1, 1, 1, 0, 1, 0}[i%9], DurationMS: 0.8 + float64(i*i%29)/3, Key: []string{"ci", "shop backend"}[i%2], Code: []string{6: "quota_exceeded", 8: ""}[i%9],
		})
	}
	return d
}

// monthlyUsage is usage of the plan business, with the calls of this month to
// convert and to all endpoints.
func monthlyUsage(convert, together int64) api.UsageDocument {
	d := storyUsage(map[string]float64{"convert": 0.4, "currencies": 0.5, "rates": 0.3, "history": 0.2}, 4)
	d.Plan, d.Endpoints = "business", d.Endpoints[:4]
	for i := range d.Endpoints {
		d.Endpoints[i].Limit, d.Endpoints[i].Remaining, d.Endpoints[i].Limits = nil, nil, nil
	}
	d.Endpoints[1].Limits = []api.UsageLimit{storyUsedLimit(api.Day, 100_000, 40_000), storyUsedLimit(api.Month, 2_000_000, convert)}
	d.Endpoints[2].Limits = []api.UsageLimit{storyUsedLimit(api.Month, 500_000, 300_000)}
	d.Endpoints[3].Limits = []api.UsageLimit{storyUsedLimit("minute", 60, 0)}
	d.Limits = []api.UsageLimit{storyUsedLimit(api.Month, 2_500_000, together), storyUsedLimit("second", 50, 0)}
	return d
}

// keyUsage is usage of the plan starter with the limits of n keys.
func keyUsage(n int, used int64) api.UsageDocument {
	d := storyUsage(map[string]float64{"convert": 0.43, "rates": 0.2, "batch": 0.1}, 40)
	for _, k := range storyKeys(n) {
		key := api.UsageKey{ID: k.ID, Name: k.Name}
		for i, l := range storyLimits(4) {
			key.Limits = append(key.Limits, api.UsageKeyLimit{
				Endpoint: l.Endpoint, UsageLimit: storyUsedLimit(l.Period, l.Limit, used/int64(i+1)),
			})
		}
		d.Keys = append(d.Keys, key)
	}
	return d
}

// fullKey is a key with as many limits and addresses as a key can have.
func fullKey() api.Key {
	key := storyKeys(1)[0]
	key.Limits = storyLimits(maxLimits)
	for i := range maxLimits {
		key.Addresses = append(key.Addresses, fmt.Sprintf("2001:db8:85a3:8d3:1319:8a2e:%d:/112", 1000+i))
	}
	return key
}

// closedUsage is usage of the plan starter where batch is closed, and convert
// for one key.
func closedUsage() api.UsageDocument {
	d := storyUsage(map[string]float64{"convert": 0.3}, 4)
	for i := range d.Endpoints {
		if d.Endpoints[i].Endpoint == "batch" {
			d.Endpoints[i].Limit, d.Endpoints[i].Remaining = new(int64(0)), new(int64(0))
			d.Endpoints[i].Limits = []api.UsageLimit{storyUsedLimit(api.Day, 0, 0)}
		}
	}
	d.Keys = []api.UsageKey{{ID: "key_1", Name: "ci", Limits: []api.UsageKeyLimit{{Endpoint: "convert", UsageLimit: storyUsedLimit(api.Day, 0, 0)}}}}
	return d
}
