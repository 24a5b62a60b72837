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
