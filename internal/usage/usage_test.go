package usage_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

// now is ahead of the clock of the machine, by which a store forgets what
// is over.
var now = time.Date(2126, 11, 20, 9, 0, 0, 0, time.UTC)

func open(t *testing.T) *storetest.Store {
	t.Helper()
	s := storetest.New(memstore.New())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func compile(t *testing.T, zone string) *policy.Policy {
	t.Helper()
	p, err := policy.New(policy.Config{
		Timezone: zone,
		Usage:    "GET /api/usage",
		Endpoints: []policy.EndpointConfig{
			{Name: "convert", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}},
			{Name: "currencies", Patterns: []string{"GET /api/currencies"}},
		},
		Plans: []policy.PlanConfig{
			{Name: "free"},
			{Name: "starter", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(1000)), "usage": new(policy.Limit(10))}},
			{Name: "business", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(store.Unlimited)), "currencies": new(policy.Limit(0))}},
			{
				Name: "monthly", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(20))},
				MoreLimits: []policy.LimitConfig{
					{Endpoint: "all", Period: "month", Limit: 100}, {Endpoint: "convert", Period: "month", Limit: 40}, {Endpoint: "currencies", Period: "month", Limit: 3},
					{Endpoint: "all", Period: "second", Limit: 7}, {Endpoint: "currencies", Period: "hour", Limit: 9}, {Endpoint: "all", Limit: 50}, {Endpoint: "usage", Period: "month", Limit: 5},
				},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func take(t *testing.T, s *storetest.Store, endpoint string, day calendar.Day, calls int) {
	t.Helper()
	for range calls {
		if ok, err := s.Take(t.Context(), store.Call{Account: "acc_1", Endpoint: endpoint, Day: day}, nil, nil); !ok || err != nil {
			t.Fatalf("taking a call: %v, %v", ok, err)
		}
	}
}

func account(t *testing.T, s *storetest.Store) {
	t.Helper()
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatal(err)
	}
}

// The document as it is published, byte for byte.
func TestBuild(t *testing.T) {
	t.Parallel()
	s, p := open(t), compile(t, "Europe/Berlin")
	account(t, s)
	today := p.Calendar.At(now).Day
	take(t, s, "convert", today, 12)
	take(t, s, "currencies", today, 3)
	take(t, s, "convert", today-2, 7)
	take(t, s, "convert", today-3, 1)
	s.Record(store.Record{
		Account: "acc_1", Key: "key_1", KeyName: "ci", At: now.Add(-time.Hour), Endpoint: "convert", Method: "GET",
		Path: "/api/convert/EUR/10/USD", Status: 429, Code: "quota_exceeded", Duration: 250 * time.Nanosecond,
	})
	s.Record(store.Record{
		Account: "acc_1", Key: "key_1", KeyName: "ci", At: time.Date(2126, 11, 20, 9, 59, 1, 120999999, time.FixedZone("", 3600)), Endpoint: "convert", Method: "GET",
		Path: "/api/convert/EUR/10/USD", Status: 200, Cost: 5, Duration: 1800400 * time.Nanosecond,
	})
	for _, test := range []struct {
		plan string
		days int
		want string
	}{
		{"starter", 3, `{"account":"acc_1","plan":"starter","timezone":"Europe/Berlin","day":"2126-11-20","resets_at":"2126-11-21T00:00:00+01:00",` +
			`"endpoints":[{"endpoint":"convert","method":"GET","path":"/api/convert/{from}/{amount}/{to}","limit":1000,"used":12,"remaining":988,"calls":12,"credited":0,"limits":[{"period":"day","limit":1000,"used":12,"remaining":988,"resets_at":"2126-11-21T00:00:00+01:00","period_start":"2126-11-20"}]},` +
			`{"endpoint":"usage","method":"GET","path":"/api/usage","limit":10,"used":0,"remaining":10,"calls":0,"credited":0,"limits":[{"period":"day","limit":10,"used":0,"remaining":10,"resets_at":"2126-11-21T00:00:00+01:00","period_start":"2126-11-20"}]}],"limits":[],"keys":[],` +
			`"recent_calls":[{"at":"2126-11-20T08:59:01.120Z","endpoint":"convert","method":"GET","path":"/api/convert/EUR/10/USD","status":200,"duration_ms":1.8,"cost":5,"key":"ci","key_id":"key_1"},` +
			`{"at":"2126-11-20T08:00:00.000Z","endpoint":"convert","method":"GET","path":"/api/convert/EUR/10/USD","status":429,"duration_ms":0,"cost":0,"key":"ci","key_id":"key_1","code":"quota_exceeded"}],` +
			`"days":[{"day":"2126-11-18","calls":{"convert":7,"usage":0}},{"day":"2126-11-19","calls":{"convert":0,"usage":0}},{"day":"2126-11-20","calls":{"convert":12,"usage":0}}]}`},
		{"business", 1, `{"account":"acc_1","plan":"business","timezone":"Europe/Berlin","day":"2126-11-20","resets_at":"2126-11-21T00:00:00+01:00",` +
			`"endpoints":[{"endpoint":"convert","method":"GET","path":"/api/convert/{from}/{amount}/{to}","limit":null,"used":12,"remaining":null,"calls":12,"credited":0,"limits":[]},` +
			`{"endpoint":"currencies","method":"GET","path":"/api/currencies","limit":0,"used":3,"remaining":0,"calls":3,"credited":0,"limits":[{"period":"day","limit":0,"used":3,"remaining":0,"resets_at":"2126-11-21T00:00:00+01:00","period_start":"2126-11-20"}]}],"limits":[],"keys":[],` +
			`"recent_calls":[],"days":[{"day":"2126-11-20","calls":{"convert":12,"currencies":3}}]}`},
		{"free", 0, `{"account":"acc_1","plan":"free","timezone":"Europe/Berlin","day":"2126-11-20","resets_at":"2126-11-21T00:00:00+01:00","endpoints":[],"limits":[],"keys":[],"recent_calls":[]}`},
		{"gone", 1, `{"account":"acc_1","plan":"gone","timezone":"Europe/Berlin","day":"2126-11-20","resets_at":"2126-11-21T00:00:00+01:00","endpoints":[],"limits":[],"keys":[],"recent_calls":[],"days":[{"day":"2126-11-20","calls":{}}]}`},
	} {
		t.Run(test.plan, func(t *testing.T) {
			document, err := usage.Build(t.Context(), p, s, usage.Query{Account: "acc_1", Plan: test.plan, Now: now, Days: test.days})
			if err != nil {
				t.Fatal(err)
			}
			if test.plan != "starter" {
				document.RecentCalls = []api.UsageCall{}
			}
			got, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var again api.UsageDocument
			if err := json.Unmarshal(got, &again); err != nil {
				t.Fatal(err)
			}
			if back, err := json.Marshal(again); err != nil || string(back) != string(got) {
				t.Errorf("decoded and encoded again: %s, %v", back, err)
			}
		})
	}
}

func TestDaysOutOfRange(t *testing.T) {
	t.Parallel()
	s, p := open(t), compile(t, "")
	for _, days := range []int{-1, api.MaxUsageDays + 1} {
		if _, err := usage.Build(t.Context(), p, s, usage.Query{Account: "acc_1", Plan: "starter", Now: now, Days: days}); !errors.Is(err, usage.ErrDays) {
			t.Errorf("%d days: got %v", days, err)
		}
	}
}

// failing is a store that has no counts now.
type failing struct{ *storetest.Store }

func (failing) CountsOfAccounts(context.Context, []string, calendar.Day, calendar.Day) ([]store.StoredCount, error) {
	return nil, store.ErrUnavailable
}

func TestStoreFails(t *testing.T) {
	t.Parallel()
	s, p := failing{open(t)}, compile(t, "")
	if _, err := usage.Build(t.Context(), p, s, usage.Query{Account: "acc_1", Plan: "starter", Now: now}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
