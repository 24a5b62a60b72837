package usage_test

import (
	"encoding/json"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

// shownLimit is a limit as the document shows it.
func shownLimit(period string, limit, used, remaining int64, resets time.Time) api.UsageLimit {
	start := map[string]string{"day": "2126-11-20", "month": "2126-11-01"}[period]
	return api.UsageLimit{Period: period, Limit: limit, Used: &used, Remaining: &remaining, ResetsAt: &resets, PeriodStart: &start}
}

// takeAs counts calls of a key.
func takeAs(t *testing.T, s *storetest.Store, key, endpoint string, day calendar.Day, cost int64) {
	t.Helper()
	call := store.Call{Account: "acc_1", Key: key, Endpoint: endpoint, Day: day, Cost: cost}
	if ok, err := s.Take(t.Context(), call, nil, nil); !ok || err != nil {
		t.Fatalf("taking a call: %v, %v", ok, err)
	}
}

// TestLimits: a month is the sum of its days, all is the sum of the endpoints
// without usage, and overrides apply while they last.
func TestLimits(t *testing.T) {
	t.Parallel()
	s, p := open(t), compile(t, "Europe/Berlin")
	account(t, s)
	today := p.Calendar.At(now).Day
	for _, c := range []struct {
		endpoint string
		day      calendar.Day
		calls    int
	}{
		{"convert", today, 12}, {"convert", today - 19, 5}, {"convert", today - 20, 100}, // the month began 19 days ago
		{"currencies", today - 1, 4}, {"usage", today, 2}, {"gone", today - 1, 1},
	} {
		take(t, s, c.endpoint, c.day, c.calls)
	}
	berlin := p.Calendar.At(now).End.Location()
	midnight, december := time.Date(2126, 11, 21, 0, 0, 0, 0, berlin), time.Date(2126, 12, 1, 0, 0, 0, 0, berlin)
	overrides := []store.Override{
		{Limit: store.Limit{Endpoint: "convert", Period: store.Month, Max: 60}, ExpiresAt: now.Add(time.Hour)},
		{Limit: store.Limit{Endpoint: "currencies", Period: store.Day, Max: 8}, ExpiresAt: now},
		{Limit: store.Limit{Endpoint: store.All, Period: store.Day, Max: store.Unlimited}},
	}
	for name, c := range map[string]struct {
		overrides           []store.Override
		convert, currencies []api.UsageLimit
		all                 []api.UsageLimit
	}{
		"plan": {
			nil,
			[]api.UsageLimit{shownLimit("day", 20, 12, 8, midnight), shownLimit("month", 40, 17, 23, december)},
			[]api.UsageLimit{shownLimit("month", 3, 4, 0, december), {Period: "hour", Limit: 9}},
			[]api.UsageLimit{shownLimit("month", 100, 22, 78, december), {Period: "second", Limit: 7}, shownLimit("day", 50, 12, 38, midnight)},
		},
		"overrides": {
			overrides,
			[]api.UsageLimit{shownLimit("day", 20, 12, 8, midnight), shownLimit("month", 60, 17, 43, december)},
			[]api.UsageLimit{shownLimit("month", 3, 4, 0, december), {Period: "hour", Limit: 9}},
			[]api.UsageLimit{shownLimit("month", 100, 22, 78, december), {Period: "second", Limit: 7}},
		},
	} {
		for _, days := range []int{0, 1, 40} {
			document, err := usage.Build(t.Context(), p, s, usage.Query{Account: "acc_1", Plan: "monthly", Terms: &store.Terms{Overrides: c.overrides}, Now: now, Days: days})
			if err != nil {
				t.Fatal(err)
			}
			convert, currencies, own := document.Endpoints[0], document.Endpoints[1], document.Endpoints[2]
			if *convert.Limit != 20 || convert.Used != 12 || *convert.Remaining != 8 || currencies.Limit != nil || currencies.Remaining != nil {
				t.Errorf("%s: got %+v and %+v", name, convert, currencies)
			}
			for what, pair := range map[string][2][]api.UsageLimit{
				"convert": {c.convert, convert.Limits}, "currencies": {c.currencies, currencies.Limits}, "all": {c.all, document.Limits},
				"usage": {{shownLimit("month", 5, 2, 3, december)}, own.Limits},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("%s with %d days, %s (-want +got):\n%s", name, days, what, diff)
				}
			}
		}
	}
}

// TestKeys: the document has the limits of the key that asks, or of all live
// keys with limits.
func TestKeys(t *testing.T) {
	t.Parallel()
	s, p := open(t), compile(t, "")
	account(t, s)
	today := p.Calendar.At(now).Day
	takeAs(t, s, "key_1", "convert", today, 3)
	takeAs(t, s, "key_1", "currencies", today-3, 4)
	takeAs(t, s, "", "convert", today, 9)
	limits := []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 5}, {Endpoint: store.All, Period: store.Month, Max: 6}, {Endpoint: "convert", Period: store.Minute, Max: 2}}
	keys := []*store.StoredKey{
		{Key: store.Key{ID: "key_0", Name: "without"}},
		{Key: store.Key{ID: "key_1", Name: "ends later", Limits: limits, ExpiresAt: now.Add(time.Hour)}},
		{Key: store.Key{ID: "key_2", Name: "successor", Root: "key_1", Limits: limits[:1]}},
		{Key: store.Key{ID: "key_3", Name: "revoked", Limits: limits, RevokedAt: now}},
		{Key: store.Key{ID: "key_4", Name: "expired", Limits: limits, ExpiresAt: now}},
		{Key: store.Key{ID: "key_5", Name: "unused", Limits: limits[1:2]}},
	}
	const used = `{"endpoint":"convert","period":"day","limit":5,"used":3,"remaining":2,"resets_at":"2126-11-21T00:00:00Z","period_start":"2126-11-20"}`
	for name, c := range map[string]struct {
		key  *store.Key
		want string
	}{
		"all": {nil, `[{"id":"key_1","name":"ends later","limits":[` + used + `,{"endpoint":"all","period":"month","limit":6,"used":7,"remaining":0,"resets_at":"2126-12-01T00:00:00Z","period_start":"2126-11-01"},` +
			`{"endpoint":"convert","period":"minute","limit":2,"used":null,"remaining":null,"resets_at":null}]},` +
			`{"id":"key_2","name":"successor","limits":[` + used + `]},` +
			`{"id":"key_5","name":"unused","limits":[{"endpoint":"all","period":"month","limit":6,"used":0,"remaining":6,"resets_at":"2126-12-01T00:00:00Z","period_start":"2126-11-01"}]}]`},
		"one":     {&keys[2].Key, `{"id":"key_2","name":"successor","limits":[` + used + `]}`},
		"without": {&keys[0].Key, `{"id":"key_0","name":"without","limits":[]}`},
	} {
		document, err := usage.Build(t.Context(), p, s, usage.Query{Account: "acc_1", Plan: "starter", Key: c.key, Keys: keys, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		var shown any = document.Keys
		if c.key != nil {
			shown = document.Key
		}
		got, err := json.Marshal(shown)
		if err != nil || (c.key == nil) != (document.Key == nil) || (c.key == nil) != (document.Keys != nil) {
			t.Fatalf("%s: got %+v, %v", name, document, err)
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
