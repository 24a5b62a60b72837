package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// config is a configuration without mistakes.
func config() policy.Config {
	return policy.Config{
		Timezone: "Europe/Berlin",
		Guard:    []string{"/api/"},
		Logins:   []string{"POST /api/login", "POST /login"},
		Usage:    "GET /api/usage",
		Endpoints: []policy.EndpointConfig{
			{Name: "rates", Method: "GET", Path: "/api/rates/{base}"},
			{Name: "convert", Method: "GET", Path: "/api/convert/{from}/{amount}/{to}"},
			{Name: "batch", Method: "POST", Path: "/api/convert/batch", Ability: "convert"},
		},
		Plans: []policy.PlanConfig{
			{Name: "free"},
			{Name: "starter", Limits: map[string]policy.Limit{"rates": 10, "batch": 0, "usage": 5}},
			{Name: "business", Limits: map[string]policy.Limit{"rates": policy.Limit(store.Unlimited), "convert": policy.MaxLimit}},
		},
	}
}

// TestMistakes holds each mistake to the part of the configuration that
// it blames: the Caddyfile's parser finds the line by it.
func TestMistakes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, subject, want string
		change              func(*policy.Config)
	}{
		{"unknown zone", "timezone", "Mars/Olympus", func(c *policy.Config) { c.Timezone = "Mars/Olympus" }},
		{"the machine's zone", "timezone", "Local", func(c *policy.Config) { c.Timezone = "Local" }},
		{"relative guard", "guard api", "slash", func(c *policy.Config) { c.Guard = []string{"api"} }},
		{"guard twice", "guard /api/", "twice", func(c *policy.Config) { c.Guard = []string{"/api/", "/api/"} }},
		{"login twice", "login POST /login", "", func(c *policy.Config) { c.Logins = append(c.Logins, "POST /login") }},
		{"login without a path", "login POST", "", func(c *policy.Config) { c.Logins = []string{"POST"} }},
		{"no attempts", "per_client", "", func(c *policy.Config) { c.LoginThrottle.PerClient = -1 }},
		{"waits upside down", "per_account", "", func(c *policy.Config) {
			c.LoginThrottle.FirstWait, c.LoginThrottle.MaxWait = policy.Duration(time.Hour), policy.Duration(time.Minute)
		}},
		{"no time to log in", "login_ttl", "", func(c *policy.Config) { c.LoginTTL = policy.Duration(time.Millisecond) }},
		{"unknown refund", "refund", "always", func(c *policy.Config) { c.Refund = "always" }},
		{"usage by POST", "usage", "GET", func(c *policy.Config) { c.Usage = "POST /api/usage" }},
		{"endpoint twice", "endpoint rates", "twice", func(c *policy.Config) {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "rates", Method: "GET", Path: "/api/other"})
		}},
		{"conflicting patterns", "endpoint other", "conflicts", func(c *policy.Config) {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "other", Method: "GET", Path: "/api/{any}/EUR"})
		}},
		{"bad pattern", "endpoint other", "", func(c *policy.Config) {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "other", Method: "GET", Path: "/api/{a"})
		}},
		{"endpoint outside the guard", "endpoint other", "guard", func(c *policy.Config) {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "other", Method: "GET", Path: "/v1/other"})
		}},
		{"endpoint by the gate's name", "endpoint usage", "usage", func(c *policy.Config) {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "usage", Method: "GET", Path: "/api/other"})
		}},
		{"endpoint that is no word", "endpoint a b", "name", func(c *policy.Config) {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "a b", Method: "GET", Path: "/api/other"})
		}},
		{"ability that is no word", "endpoint other", "ability", func(c *policy.Config) {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "other", Method: "GET", Path: "/api/other", Ability: `a"b`})
		}},
		{"plan twice", "plan free", "twice", func(c *policy.Config) { c.Plans = append(c.Plans, policy.PlanConfig{Name: "free"}) }},
		{"plan that is no word", "plan a b", "name", func(c *policy.Config) { c.Plans = append(c.Plans, policy.PlanConfig{Name: "a b"}) }},
		{"plan with an unknown endpoint", "plan starter convertt", "convertt", func(c *policy.Config) { c.Plans[1].Limits["convertt"] = 1 }},
		{"negative limit", "plan starter rates", "-1", func(c *policy.Config) { c.Plans[1].Limits["rates"] = -1 }},
		{"limit beyond bounds", "plan starter rates", "10^15", func(c *policy.Config) { c.Plans[1].Limits["rates"] = policy.MaxLimit + 1 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := config()
			test.change(&c)
			_, err := policy.New(c)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got error %v, want one with %q", err, test.want)
			}
			if !slices.Contains(subjects(err), test.subject) {
				t.Errorf("got error %q on %q, want it on %q", err, subjects(err), test.subject)
			}
		})
	}
}

// subjects lists what the joined errors blame.
func subjects(err error) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, e := range joined.Unwrap() {
			all = append(all, subjects(e)...)
		}
		return all
	}
	return []string{policy.Subject(err)}
}

func TestEntitlement(t *testing.T) {
	t.Parallel()
	p, err := policy.New(config())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		plan, endpoint string
		limit          int64
		listed         bool
	}{
		{"free", "rates", 0, false},
		{"starter", "rates", 10, true},
		{"starter", "batch", 0, true},
		{"starter", "convert", 0, false},
		{"starter", "usage", 5, true},
		{"business", "rates", store.Unlimited, true},
		{"business", "convert", policy.MaxLimit, true},
		{"gone", "rates", 0, false},
	}
	for _, test := range tests {
		limit, listed := p.Plan(test.plan).Limit(p.Endpoint(test.endpoint))
		if listed != test.listed || listed && limit != test.limit {
			t.Errorf("%s on %s: got %d, %t, want %d, %t", test.endpoint, test.plan, limit, listed, test.limit, test.listed)
		}
	}
	access := map[string]bool{}
	for _, name := range []string{"free", "starter", "business", "gone"} {
		access[name] = p.Plan(name).HasAccess()
	}
	if diff := cmp.Diff(map[string]bool{"free": false, "starter": true, "business": true, "gone": false}, access); diff != "" {
		t.Errorf("access (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"convert", "rates", "usage"}, p.Plan("starter").Abilities); diff != "" {
		t.Errorf("abilities of starter (-want +got):\n%s", diff)
	}
}

// TestEffective holds the common abilities of a token and a plan to their
// definition, for any token.
func TestEffective(t *testing.T) {
	t.Parallel()
	p, err := policy.New(config())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		plan := p.Plan(rapid.SampledFrom([]string{"free", "starter", "business"}).Draw(t, "plan"))
		carried := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"convert", "gone", "rates", "usage"}), rapid.ID).Draw(t, "carried")
		slices.Sort(carried)
		effective := plan.Effective(strings.Join(carried, " "))
		var want []string
		for _, a := range carried {
			if slices.Contains(plan.Abilities, a) {
				want = append(want, a)
			}
		}
		if got := effective.Abilities; got != strings.Join(want, " ") {
			t.Fatalf("got %q, want %q", got, want)
		}
		for _, e := range p.Endpoints {
			if got, want := effective.Includes(e), slices.Contains(carried, e.Ability); got != want {
				t.Fatalf("%s: got %t, want %t", e.Name, got, want)
			}
		}
	})
}

func TestLimitText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]policy.Limit{
		"0": 0, "100": 100, "1000000000000000": policy.MaxLimit, "unlimited": policy.Limit(store.Unlimited),
	} {
		got, err := policy.ParseLimit(text)
		if err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
		encoded, err := json.Marshal(got)
		var again policy.Limit
		if err != nil || json.Unmarshal(encoded, &again) != nil || again != want {
			t.Errorf("%q: JSON %s comes back as %d", text, encoded, again)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.5", "1e3", "1000000000000001", "Unlimited", "99999999999999999999", "1_000"} {
		if got, err := policy.ParseLimit(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
	for _, text := range []string{`"none"`, `-1`, `1.5`, `"5"`, `true`, `1000000000000001`} {
		var l policy.Limit
		if json.Unmarshal([]byte(text), &l) == nil {
			t.Errorf("%s: got %d, want an error", text, l)
		}
	}
}

func TestDurationText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{`"1h30m0s"`: 90 * time.Minute, `5000000000`: 5 * time.Second} {
		var d policy.Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s: got %v, %v, want %v", text, time.Duration(d), err, want)
		}
	}
	encoded, err := json.Marshal(policy.Duration(90 * time.Minute))
	if err != nil || string(encoded) != `"1h30m0s"` {
		t.Errorf("got %s, %v", encoded, err)
	}
	for _, text := range []string{`"soon"`, `true`} {
		var d policy.Duration
		if json.Unmarshal([]byte(text), &d) == nil {
			t.Errorf("%s: got %v, want an error", text, time.Duration(d))
		}
	}
}
