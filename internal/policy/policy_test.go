package policy_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/route"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const unlimited = policy.Limit(store.Unlimited)

func config() policy.Config {
	return policy.Config{
		Timezone: "Europe/Berlin",
		Guard:    []string{"/api/"},
		Logins:   []string{"POST /api/login", "POST /login"},
		Usage:    "GET /api/usage",
		Endpoints: []policy.EndpointConfig{
			{Name: "convert", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}},
			{Name: "rates", Patterns: []string{"GET /api/rates/{base}"}},
			{Name: "batch", Patterns: []string{"POST /api/convert/batch"}, Ability: "convert"},
		},
		Plans: []policy.PlanConfig{
			{Name: "free"},
			{Name: "starter", Limits: daily(map[string]policy.Limit{"convert": 1000, "batch": 0, "usage": 10})},
			{Name: "business", Limits: daily(map[string]policy.Limit{"convert": unlimited, "rates": policy.MaxLimit})},
		},
	}
}

func daily(limits map[string]policy.Limit) map[string]*policy.Limit {
	all := map[string]*policy.Limit{}
	for endpoint, limit := range limits {
		all[endpoint] = &limit
	}
	return all
}

func compile(t testing.TB, c policy.Config) *policy.Policy {
	t.Helper()
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNew(t *testing.T) {
	t.Parallel()
	p := compile(t, config())
	var names []string
	for i, e := range p.Endpoints {
		if e.Index != i {
			t.Errorf("%s has the index %d, want %d", e.Name, e.Index, i)
		}
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "convert rates batch usage" {
		t.Errorf("got endpoints %s", got)
	}
	if p.LoginTTL != 24*time.Hour || p.Refund != policy.RefundUnreachable || p.Calendar.Zone() != "Europe/Berlin" {
		t.Errorf("got %+v", p)
	}
	if p.Plan("free").HasAccess() || p.Plan("gone").HasAccess() || p.Plan("starter").Lists(p.Endpoint("rates")) || !p.Plan("business").Lists(p.Endpoint("rates")) {
		t.Error("a plan lists another endpoint than its own")
	}
	for _, c := range []struct{ method, path, want, allow string }{
		{"GET", "/api/convert/EUR/10/USD", "convert", "GET, HEAD"},
		{"HEAD", "/api/rates/EUR", "rates", "GET, HEAD"},
		{"POST", "/api/convert/batch", "batch", "POST"},
		{"GET", "/api/usage", "usage", "GET, HEAD"},
		{"POST", "/login", "login", "POST"},
		{"GET", "/login", "", "POST"},
		{"GET", "/api/nothing", "", ""},
	} {
		found, ok := p.Routes.Match(c.method, c.path)
		got := ""
		switch {
		case ok && found.Login:
			got = "login"
		case ok:
			got = found.Endpoint.Name
		}
		if allow := p.Routes.Allow(&route.Target{Path: c.path}); got != c.want || allow != c.allow {
			t.Errorf("%s %s: got %q, %q; want %q, %q", c.method, c.path, got, allow, c.want, c.allow)
		}
	}
}

// TestMistakes: the error of each mistake names its part of the configuration.
// Those that a Caddyfile can have are in testdata/mistakes.txt of caddymodule.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*policy.Config)
		subject string
	}{
		"guard":          {func(c *policy.Config) { c.Guard = []string{"/api/", "v2"} }, "guard v2"},
		"guard twice":    {func(c *policy.Config) { c.Guard = []string{"/api/", "/api/"} }, "guard /api/"},
		"login":          {func(c *policy.Config) { c.Logins = []string{"/login"} }, "login /login"},
		"login word":     {func(c *policy.Config) { c.Logins = []string{"POST /signup lax"} }, "login POST /signup lax"},
		"attempts":       {func(c *policy.Config) { c.LoginThrottle.PerClient = -1 }, "per_client"},
		"failures":       {func(c *policy.Config) { c.LoginThrottle.FreeFailures = 1 << 20 }, "per_account"},
		"login_ttl":      {func(c *policy.Config) { c.LoginTTL = -1 }, "login_ttl"},
		"usage":          {func(c *policy.Config) { c.Usage = "/api/usage" }, "usage"},
		"login methods":  {func(c *policy.Config) { c.Logins = []string{"* /login"} }, "login * /login"},
		"no route":       {func(c *policy.Config) { c.Endpoints[0].Patterns = nil }, "endpoint convert"},
		"second route":   {func(c *policy.Config) { c.Endpoints[0].Patterns = append(c.Endpoints[0].Patterns, "GET /api/*") }, "endpoint convert GET /api/*"},
		"endpoint twice": {func(c *policy.Config) { c.Endpoints[1].Name = "convert" }, "endpoint convert"},
		"plan name":      {func(c *policy.Config) { c.Plans[0].Name = "" }, "plan "},
		"plan twice":     {func(c *policy.Config) { c.Plans[1].Name = "free" }, "plan free"},
		"short max_age":  {func(c *policy.Config) { c.CORS = &policy.CORSConfig{Origins: []string{"*"}, MaxAge: 1} }, "cors max_age"},
	} {
		changed := config()
		c.change(&changed)
		_, err := policy.New(changed)
		if err == nil || policy.Subject(err) != c.subject {
			t.Errorf("%s: got %v about %q, want it about %q", name, err, policy.Subject(err), c.subject)
		}
	}
	if policy.Subject(errors.New("another")) != "" || policy.Subject(nil) != "" {
		t.Error("another error has a subject")
	}
}

// TestEffective compares random sets of abilities with the plan's own.
func TestEffective(t *testing.T) {
	t.Parallel()
	p := compile(t, config())
	words := []string{"batch", "convert", "nothing", "rates", "usage"}
	rapid.Check(t, func(t *rapid.T) {
		plan := p.Plan(rapid.SampledFrom([]string{"free", "starter", "business"}).Draw(t, "plan"))
		held := rapid.SliceOfDistinct(rapid.SampledFrom(words), func(s string) string { return s }).Draw(t, "held")
		slices.Sort(held)
		got := plan.Effective(strings.Join(held, " "))
		var want []string
		for _, a := range held {
			if slices.Contains(plan.Abilities, a) {
				want = append(want, a)
			}
		}
		if got.Abilities != strings.Join(want, " ") {
			t.Fatalf("got %q, want %q", got.Abilities, want)
		}
		for _, e := range p.Endpoints {
			if got.Includes(e) != slices.Contains(held, e.Ability) {
				t.Fatalf("%s: got %t for %q", e.Name, got.Includes(e), held)
			}
		}
	})
}

// TestEffectiveIsBounded: many different sets of abilities do not fill the
// memory, and the result is right for sets that are not cached.
func TestEffectiveIsBounded(t *testing.T) {
	t.Parallel()
	plan := compile(t, config()).Plan("business")
	for i := range 3000 {
		if got := plan.Effective(strings.Repeat("x", i) + " rates"); got.Abilities != "rates" {
			t.Fatalf("%d: got %q", i, got.Abilities)
		}
	}
	first := plan.Effective(" rates")
	if plan.Effective(" rates") != first {
		t.Error("a cached set is computed again")
	}
	late := strings.Repeat("x", 2999) + " rates"
	if again := plan.Effective(late); again == plan.Effective(late) {
		t.Error("a set beyond the bound is cached")
	}
}

func TestParseLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]policy.Limit{"0": 0, "1": 1, "007": 7, "1000000000000000": policy.MaxLimit, "unlimited": unlimited} {
		if got, err := policy.ParseLimit(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.0", "1e3", "1_000", " 1", "0x10", "1000000000000001", "18446744073709551616", "Unlimited", "many"} {
		if got, err := policy.ParseLimit(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func TestLimitJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0", "7", "1000000000000000", `"unlimited"`} {
		var limit policy.Limit
		err := json.Unmarshal([]byte(text), &limit)
		if again, failed := json.Marshal(limit); err != nil || failed != nil || string(again) != text {
			t.Errorf("%s: got %s, %v", text, again, errors.Join(err, failed))
		}
	}
	for _, text := range []string{`"5"`, `-1`, `1.5`, `1e3`, `true`, `"none"`, `1000000000000001`} {
		var limit policy.Limit
		if err := json.Unmarshal([]byte(text), &limit); err == nil {
			t.Errorf("%s: got %d, want an error", text, limit)
		}
	}
}

func TestDurationJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{`"1h30m"`: 90 * time.Minute, `1000000000`: time.Second, `"0s"`: 0} {
		var d policy.Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s: got %v, %v", text, time.Duration(d), err)
		}
	}
	var week policy.Duration
	if err := json.Unmarshal([]byte(`"7d12h"`), &week); err != nil || time.Duration(week) != 180*time.Hour {
		t.Errorf("7d12h: got %v, %v", time.Duration(week), err)
	}
	for _, text := range []string{`"soon"`, `"1.5d"`, `"5"`, `1.5`, `true`, `{}`} {
		var d policy.Duration
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s: got %v, want an error", text, time.Duration(d))
		}
	}
	if text, err := json.Marshal(policy.Duration(90 * time.Second)); err != nil || string(text) != `"1m30s"` {
		t.Errorf("got %s, %v", text, err)
	}
}

// TestLoginAliases: outside the guard, the spellings of a login that a
// lenient server would serve are aliases, and similar paths are not.
func TestLoginAliases(t *testing.T) {
	t.Parallel()
	p, err := policy.New(config())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/LOGIN": true, "/login/": true, "/login;x=1": true, "/login;/": true, "/lo%67in": true, "/login?x": true, "/login%23x": true,
		"/login/help": false, "/logins": false, "/": false, "/settings": false,
	} {
		if got := p.IsLoginAlias(http.MethodPost, path); got != want {
			t.Errorf("%s: got %t, want %t", path, got, want)
		}
		if p.IsLoginAlias(http.MethodGet, path) {
			t.Errorf("GET %s is an alias", path)
		}
	}
	// Two logins can be equal to a lenient server, and match whole folders.
	c := config()
	c.Logins = []string{
		"POST /login", "POST /login/", "POST /Login", "POST /sign/{way}/{$}", "POST /of/{a}/{A}/enter", "POST /%7Bx/in", "POST /%3Ain%24",
		"POST /auth/{rest...}", "GET /legacy", "POST /{$}",
	}
	if p, err = policy.New(c); err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]bool{
		"POST /LOGIN": true, "POST /login/a/b": true, "POST /Sign/In": true, "POST /sign/in/now": false, "POST /log": false,
		"post /login": true, "Post /login": true, "PUT /LOGIN": false,
		"POST /of/x/y/ENTER": true, "POST /of/x/enter": false, "POST /{X/in": true, "POST /:IN$": true,
		"POST /AUTH": true, "POST /AUTH/": true, "POST /Auth/x/y": true,
		"HEAD /LEGACY": true, "GET /Legacy": true, "POST /LEGACY": false, "POST /other": false,
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := p.IsLoginAlias(method, path); got != want {
			t.Errorf("%s: got %t, want %t", request, got, want)
		}
	}
}

// TestMistakeOfAnEndpoint: a mistake of an endpoint is no mistake of the
// plan that lists it.
func TestMistakeOfAnEndpoint(t *testing.T) {
	t.Parallel()
	c := config()
	c.Endpoints[0].Patterns = []string{"get /api/convert/{from}/{amount}/{to}"}
	_, err := policy.New(c)
	if err == nil || strings.Contains(err.Error(), "there is no endpoint") || !strings.Contains(err.Error(), "capital letters") {
		t.Errorf("got %v", err)
	}
}
