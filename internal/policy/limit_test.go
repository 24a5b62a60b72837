package policy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// written returns limits as text: their names in RateLimit headers, and their
// numbers.
func written(limits []store.Limit) string {
	var all []string
	for _, l := range limits {
		number := "unlimited"
		if l.Max != store.Unlimited {
			number = fmt.Sprint(l.Max)
		}
		all = append(all, string(policy.AppendLimitName(nil, &l))+" "+number)
	}
	return strings.Join(all, ", ")
}

// withPlan returns the configuration of the tests with one plan, of JSON.
func withPlan(t testing.TB, text string) policy.Config {
	t.Helper()
	c := config()
	c.Plans = []policy.PlanConfig{{}}
	if err := json.Unmarshal([]byte(text), &c.Plans[0]); err != nil {
		t.Fatal(err)
	}
	c.Plans[0].Name = "p"
	return c
}

// mixed has limits of all kinds.
const mixed = `{
	"limits": {"usage": 10, "convert": 1000, "batch": null},
	"more_limits": [
		{"endpoint": "all", "period": "second", "limit": 10},
		{"endpoint": "convert", "period": "month", "limit": 20000},
		{"endpoint": "all", "period": "month", "limit": "unlimited"},
		{"endpoint": "rates", "period": "hour", "limit": 1},
		{"endpoint": "all", "limit": 2000},
		{"endpoint": "batch", "limit": "unlimited"}
	]
}`

// TestOrderOfLimits: the limits of a plan and of each endpoint are in the
// order of the configuration. Those in limits come first, in the order of
// the endpoints.
func TestOrderOfLimits(t *testing.T) {
	t.Parallel()
	p := compile(t, withPlan(t, mixed))
	plan := p.Plan("p")
	const all = "convert 1000, usage 10, all-second 10, convert-month 20000, all-month unlimited, rates-hour 1, all 2000, batch unlimited"
	if got := written(plan.Limits); got != all {
		t.Errorf("got limits %q, want %q", got, all)
	}
	for endpoint, want := range map[string]string{
		"convert": "convert 1000, all-second 10, convert-month 20000, all 2000",
		"rates":   "all-second 10, rates-hour 1, all 2000",
		"batch":   "all-second 10, all 2000",
		"usage":   "usage 10",
	} {
		e := p.Endpoint(endpoint)
		if got := written(plan.LimitsOf(e, nil, time.Time{})); got != want || !plan.Lists(e) {
			t.Errorf("%s: got %q, listed: %t; want %q", endpoint, got, plan.Lists(e), want)
		}
	}
	if want := []string{"convert", "rates", "usage"}; !slices.Equal(plan.Abilities, want) {
		t.Errorf("got abilities %q, want %q", plan.Abilities, want)
	}
}

// TestPlanThatOpensNothing: limits of all endpoints together give no access, so
// a plan that has no others is a mistake. A plan without limits is not.
func TestPlanThatOpensNothing(t *testing.T) {
	t.Parallel()
	_, err := policy.New(withPlan(t, `{"more_limits": [{"endpoint": "all", "period": "month", "limit": 5}, {"endpoint": "all", "limit": "unlimited"}]}`))
	if policy.Subject(err) != "plan p" || !strings.Contains(err.Error(), "opens no endpoint") {
		t.Errorf("got %v", err)
	}
	if compile(t, withPlan(t, `{}`)).Plan("p").HasAccess() {
		t.Error("a plan without limits has access")
	}
}

// TestMistakesOfLimits: each error names its limit and what is wrong. A plan
// has no other error.
func TestMistakesOfLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ plan, want string }{
		"no limit":       {`{"more_limits": [{"endpoint": "all", "period": "hour"}]}`, `plan p all hour: limit is missing: use a number from 0 to 10^15 or "unlimited"`},
		"endpoint twice": {`{"limits": {"rate": null}, "more_limits": [{"endpoint": "rate", "period": "month", "limit": 1}]}`, `plan p rate: there is no endpoint "rate": endpoints are convert, rates, batch, usage`},
		"star":           {`{"more_limits": [{"endpoint": "*", "limit": 1}]}`, `plan p *: there is no endpoint "*": endpoints are convert, rates, batch, usage`},
		"duplicate month": {
			`{"more_limits": [{"endpoint": "convert", "period": "month", "limit": 1}, {"endpoint": "convert", "period": "month", "limit": 2}]}`,
			`plan p convert month: duplicate limit of "convert" for each month`,
		},
		"duplicate of all":  {`{"more_limits": [{"endpoint": "all", "limit": 1}, {"endpoint": "all", "period": "day", "limit": "unlimited"}]}`, `plan p all: duplicate limit of "all" for each day`},
		"duplicate in both": {`{"limits": {"convert": 5}, "more_limits": [{"endpoint": "convert", "limit": 5}]}`, `plan p convert: duplicate limit of "convert" for each day`},
	} {
		_, err := policy.New(withPlan(t, c.plan))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	// null is no duplicate.
	compile(t, withPlan(t, `{"limits": {"convert": null}, "more_limits": [{"endpoint": "convert", "limit": 5}]}`))
	// A number above the largest limit, of Go.
	c := withPlan(t, `{"more_limits": [{"endpoint": "convert", "period": "month", "limit": 1}]}`)
	c.Plans[0].MoreLimits[0].Limit = policy.MaxLimit + 1
	if _, err := policy.New(c); policy.Subject(err) != "plan p convert month" {
		t.Errorf("got %v about %q", err, policy.Subject(err))
	}
}

// TestEqualLimitNames: two endpoints whose limits can have the same name in
// RateLimit headers are refused, in any order. all is no endpoint.
func TestEqualLimitNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second, want string }{
		{"convert-month", "convert", `its limits and those of "convert-month" can have the same name "convert-month"`},
		{"convert", "key-convert", `its limits and those of "convert" can have the same name "key-convert-second"`},
		{"convert", "key-usage", ""},
		{"convert", "convert-day", ""},
		{"convert", "Convert-month", ""},
		{"convert", "All", ""},
	} {
		t.Run(c.first+" "+c.second, func(t *testing.T) {
			t.Parallel()
			_, err := policy.New(policy.Config{Endpoints: []policy.EndpointConfig{
				{Name: c.first, Patterns: []string{"GET /first"}}, {Name: c.second, Patterns: []string{"GET /second"}},
			}})
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case c.want != "" && (err == nil || policy.Subject(err) != "endpoint "+c.second || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v about %q, want %s", err, policy.Subject(err), c.want)
			}
		})
	}
	for name, want := range map[string]string{"usage-month": "usage-month", "key-usage": "key-usage"} {
		c := config()
		c.Endpoints[1].Name, c.Plans = name, nil
		if _, err := policy.New(c); policy.Subject(err) != "usage" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s beside usage: got %v", name, err)
		}
	}
}

// costly returns a configuration of one endpoint. The default method is POST.
func costly(e policy.EndpointConfig) policy.Config {
	if e.Name = "batch"; e.Patterns == nil {
		e.Patterns = []string{"POST /batch"}
	}
	return policy.Config{Endpoints: []policy.EndpointConfig{e}}
}

func TestMistakesOfCosts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		endpoint policy.EndpointConfig
		want     string
	}{
		"negative":      {policy.EndpointConfig{Cost: -1}, "cost -1 is not from 1 to 10000"},
		"both":          {policy.EndpointConfig{Cost: 2, CostMember: "items"}, "both cost and cost_member: use one of them"},
		"no reserve":    {answering(policy.CostAnswerConfig{Header: "X-Rows"}), "reserve 0 is not from 1 to 1000000000"},
		"no header":     {answering(policy.CostAnswerConfig{Reserve: 5}), "cost_answer requires header or members, one of them"},
		"two sources":   {answering(policy.CostAnswerConfig{Header: "X-Rows", Members: []string{"n"}, Reserve: 5}), "cost_answer requires header or members, one of them"},
		"reserve < 0":   {answering(policy.CostAnswerConfig{Header: "X-Rows", Reserve: -5}), "reserve -5 is not from 1 to 1000000000"},
		"header":        {answering(policy.CostAnswerConfig{Header: "X Rows", Reserve: 5}), `"X Rows" is not the name of a header`},
		"and cost":      {policy.EndpointConfig{CostAnswer: &policy.CostAnswerConfig{Header: "X-Rows", Reserve: 5}, Cost: 1}, "both cost_answer and another cost: use one of them"},
		"and member":    {policy.EndpointConfig{CostAnswer: &policy.CostAnswerConfig{Header: "X-Rows", Reserve: 5}, CostMember: "items"}, "both cost_answer and another cost: use one of them"},
		"member":        {answering(policy.CostAnswerConfig{Members: []string{"usage..n"}, Reserve: 5}), `"usage..n" is not a member: write up to 8 names of letters, digits, - or _ with a dot between them, such as usage.total_tokens`},
		"same members":  {answering(policy.CostAnswerConfig{Members: []string{"n", "m", "n"}, Reserve: 5}), `duplicate member "n"`},
		"many members":  {answering(policy.CostAnswerConfig{Members: strings.Split("abcdefghi", ""), Reserve: 5}), "9 members: use at most 8"},
		"no bound":      {answering(policy.CostAnswerConfig{Members: []string{"n"}, Reserve: 5, Bound: []string{}}), "bound has no member: name one, such as max_tokens"},
		"bound alike":   {answering(policy.CostAnswerConfig{Members: []string{"n"}, Reserve: 5, Bound: []string{"a.maxTokens", "A.b", "a.max_tokens"}}), `some services take "A" for "a": name one of them`},
		"bound alike 2": {answering(policy.CostAnswerConfig{Members: []string{"n"}, Reserve: 5, Bound: []string{"a.maxTokens", "a.max_tokens"}}), `some services take "a.max_tokens" for "a.maxTokens": name one of them`},
		"bound of GET":  {policy.EndpointConfig{Patterns: []string{"GET /batch"}, CostAnswer: &policy.CostAnswerConfig{Members: []string{"n"}, Reserve: 5, Bound: []string{"max"}}}, `the member "max" requires the method POST, PUT or PATCH, not "GET"`},
		"scale 0":       {answering(policy.CostAnswerConfig{Members: []string{"n"}, Reserve: 5, Scale: "0"}), `scale "0" is not a number above 0 with up to 10 digits before and behind the point`},
		"scale 1e9":     {answering(policy.CostAnswerConfig{Members: []string{"n"}, Reserve: 5, Scale: "1e9"}), `scale "1e9" is not a number above 0 with up to 10 digits before and behind the point`},
		"body alone":    {policy.EndpointConfig{CostBody: 5}, "cost_body requires cost_member or a bound"},
		"body < 0":      {policy.EndpointConfig{CostMember: "items", CostBody: -1}, "cost_body -1 is not from 1 to 16777216 bytes"},
		"body > most":   {policy.EndpointConfig{CostMember: "items", CostBody: policy.MaxCostBody + 1}, "cost_body 16777217 is not from 1 to 16777216 bytes"},
	} {
		_, err := policy.New(costly(c.endpoint))
		if want := "endpoint batch cost: " + c.want; err == nil || err.Error() != want || policy.Subject(err) != "endpoint batch cost" {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// TestPlanJSON: the configuration of a plan keeps its form, also null.
func TestPlanJSON(t *testing.T) {
	t.Parallel()
	const text = `{"name":"p","limits":{"batch":null,"convert":"unlimited","rates":0},"more_limits":[{"endpoint":"all","period":"month","limit":"unlimited"},{"endpoint":"rates","limit":0}]}`
	var c policy.PlanConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(c); err != nil || string(got) != text {
		t.Errorf("got %s, %v; want %s", got, err, text)
	}
	for _, wrong := range []string{
		`{"more_limits":[{"endpoint":"all","limit":null}]}`, `{"more_limits":[{"endpoint":"all","limit":-1}]}`, `{"more_limits":[{"endpoint":"all","limit":"many"}]}`,
		`{"more_limits":{"all":1}}`, `{"limits":{"convert":"many"}}`, `{"limits":{"convert":1.5}}`,
	} {
		if err := json.Unmarshal([]byte(wrong), new(policy.PlanConfig)); err == nil {
			t.Errorf("%s: got no error", wrong)
		}
	}
}

func answering(c policy.CostAnswerConfig) policy.EndpointConfig {
	return policy.EndpointConfig{CostAnswer: &c}
}
