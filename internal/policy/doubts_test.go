package policy_test

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// renamed is config after a rename of two endpoints, one of which has the
// ability of the other.
func renamed() policy.Config {
	c := config()
	c.Endpoints[0].Name, c.Endpoints[0].Rename = "exchange", []string{"change", "convert"}
	c.Endpoints[2].Name, c.Endpoints[2].Rename, c.Endpoints[2].Ability = "bulk", []string{"batch"}, "exchange"
	c.Plans[1].Limits = daily(map[string]policy.Limit{"exchange": 1000, "bulk": 0, "usage": 10})
	c.Plans[2].Limits = daily(map[string]policy.Limit{"exchange": unlimited, "rates": policy.MaxLimit})
	return c
}

// TestRenamedAbilities: an older name of an ability counts as that of today,
// but that of an endpoint with an ability of its own does not.
func TestRenamedAbilities(t *testing.T) {
	t.Parallel()
	p := compile(t, renamed())
	for held, want := range map[string]string{
		"convert usage": "exchange usage", "change": "exchange", "change convert exchange": "exchange", "convert dummy exchange": "exchange", "rates zzz": "rates",
		"batch": "", "bulk": "", "rates usage": "rates usage", "change usage rates": "exchange rates usage",
	} {
		var got []string
		for _, plan := range []string{"starter", "business"} {
			got = append(got, p.Plan(plan).Effective(held).Abilities)
		}
		of := func(without string) string {
			return strings.Join(strings.Fields(strings.ReplaceAll(" "+want+" ", " "+without+" ", " ")), " ")
		}
		if got[0] != of("rates") || got[1] != of("usage") {
			t.Errorf("%q: got %q", held, got)
		}
	}
	if e := p.Plan("starter").Effective("change"); !e.Includes(p.Endpoint("exchange")) || !e.Includes(p.Endpoint("bulk")) || e.Includes(p.Endpoint("usage")) {
		t.Error("an older ability opens other endpoints than that of today")
	}
}

// TestDoubts: a line of a plan below what a call costs is found once. A limit of
// 0 is meant to refuse all calls, and a plan without the endpoint refuses none.
func TestDoubts(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{
		Guard: []string{"/api/"},
		Endpoints: []policy.EndpointConfig{
			{Name: "batch", Pattern: "GET /api/batch", Cost: 100},
			{Name: "chat", Pattern: "GET /api/chat", CostHeader: "X-Tokens", CostReserve: 4096},
			{Name: "small", Pattern: "GET /api/small"},
		},
		Plans: []policy.PlanConfig{
			{Name: "zero", Limits: map[string]*policy.Limit{"batch": new(policy.Limit(0)), "chat": new(policy.Limit(4096)), "small": new(policy.Limit(1))}},
			{Name: "other", Limits: map[string]*policy.Limit{"small": new(policy.Limit(1))}, MoreLimits: []policy.LimitConfig{{Endpoint: "all", Period: "minute", Limit: 60}}},
			{Name: "tight", Limits: map[string]*policy.Limit{"batch": new(policy.Limit(50)), "chat": new(policy.Limit(1e9)), "small": new(policy.Limit(1))},
				MoreLimits: []policy.LimitConfig{{Endpoint: "all", Period: "minute", Limit: 60}}},
		},
	})
	got := p.Doubts()
	want := []string{
		`The plan "tight" has the line "batch 50 day", which refuses each call to batch (costs 100) with`,
		`The plan "tight" has the line "* 60 minute", which refuses each call to batch (costs 100), chat (reserves 4096) with`,
	}
	if len(got) != len(want) || !strings.HasPrefix(got[0], want[0]) || !strings.HasPrefix(got[1], want[1]) {
		t.Errorf("got %q", got)
	}
}
