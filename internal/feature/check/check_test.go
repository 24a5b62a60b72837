package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/feature/check"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

func config() policy.Config {
	return policy.Config{
		Timezone: "Europe/Berlin",
		Usage:    "GET /api/usage",
		Endpoints: []policy.EndpointConfig{
			{Name: "convert", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}},
			{Name: "rates", Patterns: []string{"GET /api/rates/{base}"}},
			{Name: "batch", Patterns: []string{"POST /api/convert/batch"}, Ability: "convert"},
		},
		Plans: []policy.PlanConfig{
			{Name: "free"},
			{Name: "starter", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(1000)), "usage": new(policy.Limit(10))}},
		},
	}
}

// renamed is config after a rename of two endpoints, one of which has the
// ability of the other.
func renamed() policy.Config {
	c := config()
	c.Endpoints[0].Name, c.Endpoints[0].Rename = "exchange", []string{"change", "convert"}
	c.Endpoints[2].Name, c.Endpoints[2].Rename, c.Endpoints[2].Ability = "bulk", []string{"batch"}, "exchange"
	c.Plans[1].Limits = map[string]*policy.Limit{"exchange": new(policy.Limit(1000))}
	return c
}

func compile(t *testing.T, c policy.Config) *policy.Policy {
	t.Helper()
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLosses: each thing that accounts need and the configuration does not have
// is one finding with its number and the remedy.
func TestLosses(t *testing.T) {
	t.Parallel()
	complete := api.Census{
		Plans: map[string]int64{"starter": 3, "free": 1}, Then: map[string]int64{"starter": 2, "free": 1}, Abilities: map[string]int64{"convert": 2, "usage": 1},
		Endpoints: map[string]int64{"convert": 7, "batch": 1, "usage": 2}, Timezone: "Europe/Berlin",
	}
	if got := append(check.Losses(compile(t, config()), complete), check.Losses(compile(t, renamed()), complete)...); len(got) > 0 {
		t.Errorf("got %q for what both have", got)
	}
	if got := check.Losses(compile(t, config()), api.Census{}); len(got) > 0 {
		t.Errorf("got %q for an empty store", got)
	}
	withoutFree := config()
	withoutFree.Plans = withoutFree.Plans[1:]
	if got := check.Losses(compile(t, withoutFree), complete); len(got) > 0 {
		t.Errorf("got %q: plan free always exists", got)
	}
	for name, c := range map[string]struct {
		change func(*policy.Config)
		want   []string
	}{
		"plan":          {func(c *policy.Config) { c.Plans[1].Name = "small" }, []string{`3 accounts have the plan "starter"`, `2 accounts have the plan "starter" as the next one`}},
		"endpoint":      {func(c *policy.Config) { c.Endpoints[0].Name, c.Plans = "exchange", nil }, []string{`3 accounts have`, `2 accounts have`, `endpoint "convert" (calls: 7)`}},
		"its ability":   {func(c *policy.Config) { c.Endpoints, c.Plans = c.Endpoints[1:2], c.Plans[:1] }, []string{`3 accounts`, `2 accounts`, `2 live keys have the ability "convert"`, `"batch"`, `"convert" (calls: 7)`}},
		"one key":       {func(c *policy.Config) { c.Usage = ""; delete(c.Plans[1].Limits, "usage") }, []string{`1 live key has the ability "usage"`, `endpoint "usage" (calls: 2)`}},
		"zone":          {func(c *policy.Config) { c.Timezone = "UTC" }, []string{`time zone Europe/Berlin, and the configuration has UTC`}},
		"other ability": {func(c *policy.Config) { *c = renamed(); c.Endpoints[0].Ability = "exchanges" }, []string{`The endpoint exchange had this name, but its ability is another one`}},
	} {
		changed := config()
		c.change(&changed)
		got := check.Losses(compile(t, changed), complete)
		if len(got) != len(c.want) {
			t.Errorf("%s: got %q", name, got)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: got %q, want %q in it", name, got[i], want)
			}
		}
	}
}

// TestDoubts: a line of a plan below what a call costs is found once. A limit of
// 0 is meant to refuse all calls, and a plan without the endpoint refuses none.
func TestDoubts(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{
		Guard: []string{"/api/"},
		Endpoints: []policy.EndpointConfig{
			{Name: "batch", Patterns: []string{"GET /api/batch"}, Cost: 100},
			{Name: "chat", Patterns: []string{"GET /api/chat"}, CostAnswer: &policy.CostAnswerConfig{Header: "X-Tokens", Reserve: 4096}},
			{Name: "small", Patterns: []string{"GET /api/small"}},
		},
		Plans: []policy.PlanConfig{
			{Name: "zero", Limits: map[string]*policy.Limit{"batch": new(policy.Limit(0)), "chat": new(policy.Limit(4096)), "small": new(policy.Limit(1))}},
			{Name: "other", Limits: map[string]*policy.Limit{"small": new(policy.Limit(1))}, MoreLimits: []policy.LimitConfig{{Endpoint: "all", Period: "minute", Limit: 60}}},
			{Name: "tight", Limits: map[string]*policy.Limit{"batch": new(policy.Limit(50)), "chat": new(policy.Limit(1e9)), "small": new(policy.Limit(1))},
				MoreLimits: []policy.LimitConfig{{Endpoint: "all", Period: "minute", Limit: 60}, {Endpoint: "chat", Period: "month", Limit: 100, Soft: 900}}},
		},
	})
	got := check.Doubts(p)
	want := []string{
		`The plan "tight" has the line "batch 50 day", which refuses each call to batch (costs 100) with`,
		`The plan "tight" has the line "* 60 minute", which refuses each call to batch (costs 100), chat (reserves 4096) with`,
		`The plan "tight" has the line "chat 100 month soft 900", which refuses each call to chat (reserves 4096) with`,
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got %q", got)
	}
}
