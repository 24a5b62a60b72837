package web_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

var token = regexp.MustCompile(`tgk_[0-9A-Za-z]{49}`)

// What a form may get wrong is said beside the field, and nothing is
// made.
func TestKeyMistakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	ada.makeKey("ci")
	for _, c := range []struct {
		name, ability, life string
		status              int
		says                string
	}{
		{"ci", "convert", "90", 422, "You have a key with this name"},
		{"", "convert", "90", 422, "1 to 64 characters"},
		{"two\nlines", "convert", "90", 422, "1 to 64 characters"},
		{"none", "", "90", 422, "Your plan does not have"},
		{"long", "convert", "36500", 400, "The form is invalid"},
	} {
		ada.post("/settings/keys/new", "name", c.name, "ability", c.ability, "life", c.life).has(t, c.status, c.says)
	}
	ada.post("/settings/keys/new", "name", "none", "life", "90").has(t, 422, "Choose at least one")
	ada.post("/settings/keys/new", "name", strings.Repeat("x", 20<<10)).has(t, 400, "The form is invalid")
	id := ada.get("/settings/keys").body
	id = regexp.MustCompile(`/settings/keys/([^"/]+)">ci<`).FindStringSubmatch(id)[1]
	ada.post("/settings/keys/"+id+"/rotate", "overlap", "9999").has(t, 400, "The form is invalid")
	if got := w.keys(a.ID); !slices.Equal(got, []string{"ci"}) {
		t.Errorf("keys are %v, want ci alone", got)
	}
}

// Strangers can sign up where that is allowed, and nowhere else.
func TestSignUp(t *testing.T) {
	t.Parallel()
	closed := newWorld(t).person()
	closed.get("/signup").has(t, http.StatusNotFound)
	closed.post("/signup", "email", "ada@example.com", "password", password).has(t, http.StatusNotFound)

	w := newWorld(t, func(c *web.Config) { c.SignUp = "free" })
	ada := w.person()
	ada.get("/").has(t, http.StatusOK, `primary" href="/signup"`)
	ada.get("/login").has(t, http.StatusOK, `href="/signup"`)
	ada.post("/signup", "email", "nobody", "password", password).has(t, 422, "not an e-mail address", "aria-invalid")
	ada.post("/signup", "email", "ada@example.com", "password", "short").has(t, 422, "Use at least 15 characters.", `value="ada@example.com"`, `minlength="15"`)
	if got := ada.post("/signup", "email", " Ada@Example.com ", "password", password); got.location != "/settings/keys?done=signed-up" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	ada.get("/settings/keys").has(t, http.StatusOK, "Your plan, free,", "ada@example.com")
	if got := ada.get("/signup"); got.location != "/usage" {
		t.Errorf("signed in already: got %d to %q", got.status, got.location)
	}
	// Threat: the gate takes a 303 for the right password of whoever the
	// form names.
	ada.post("/signup", "email", "eve@example.com", "password", password).has(t, http.StatusConflict, "You are signed in")
	ada.get("/settings/keys").has(t, http.StatusOK, "ada@example.com")
	w.person().post("/signup", "email", "ada@example.com", "password", other).has(t, 422, "An account with this e-mail address exists")
	w.person().signIn("ada@example.com")
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person()
	ada.get("/login").has(t, http.StatusOK, `name="email"`, `autocomplete="current-password"`)
	unknown := ada.post("/login", "email", "eve@example.com", "password", "wrong")
	wrong := ada.post("/login", "email", "ada@example.com", "password", "wrong")
	wrong.has(t, http.StatusUnauthorized, "E-mail or password is wrong.", `value="ada@example.com"`)
	if strings.ReplaceAll(unknown.body, "eve@", "ada@") != wrong.body || unknown.status != wrong.status {
		t.Error("an unknown address is answered otherwise than a wrong password")
	}
	// The fields count in the body only.
	ada.post("/login?email=ada@example.com&password="+strings.ReplaceAll(password, " ", "+")).has(t, http.StatusUnauthorized)
	for _, target := range []string{"/usage", "/settings/keys", "/settings/keys/abc/revoke"} {
		if got := ada.get(target); got.status != http.StatusSeeOther || !strings.HasPrefix(got.location, "/login?next=%2F") {
			t.Errorf("GET %s: got %d to %q", target, got.status, got.location)
		}
	}
	if got := ada.post("/settings/sessions"); got.location != "/login?next=%2Fsettings%2Fsessions" {
		t.Errorf("POST: got %d to %q", got.status, got.location)
	}
	ada.signIn("ADA@example.com")
	if got := ada.get("/"); got.location != "/usage" {
		t.Errorf("GET /: got %d to %q", got.status, got.location)
	}
}

// When the gate is away every page says so, nothing is changed, and
// signing out works all the same.
func TestGateUnreachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) { c.SignUp = "free" })
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	w.gate.Stop()
	for _, target := range []string{"/usage", "/settings/keys", "/settings/plan", "/settings/sessions"} {
		got := ada.get(target)
		got.has(t, http.StatusServiceUnavailable, "The gate does not answer", "ada@example.com")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", target)
		}
	}
	ada.post("/settings/keys/new", "name", "ci", "ability", "convert", "life", "90").has(t, http.StatusServiceUnavailable)
	ada.get("/settings/password").has(t, http.StatusOK, "Current password", "ada@example.com")
	ada.post("/settings/password", "current", other, "password", password).has(t, http.StatusUnauthorized, "This is not your current password")
	if got := ada.post("/settings/password", "current", password, "password", other); got.location != "/settings/password?done=password-alone" {
		t.Errorf("changing the password: got %d to %q", got.status, got.location)
	}
	ada.get("/settings/password?done=password-alone").has(t, http.StatusOK, "Your password is changed", "end as soon as it does")
	w.person().post("/login", "email", "ada@example.com", "password", password).has(t, http.StatusServiceUnavailable)
	w.person().get("/signup").has(t, http.StatusServiceUnavailable, "The gate does not answer")
	w.person().post("/signup", "email", "bob@example.com", "password", password).has(t, http.StatusServiceUnavailable)
	if got := ada.post("/logout"); got.status != http.StatusSeeOther || w.thief(ada.cookie()) {
		t.Errorf("signing out: got %d", got.status)
	}
}

// Styles and scripts are kept for ever under an address that changes with
// them.
func TestAssets(t *testing.T) {
	t.Parallel()
	p := newWorld(t).person()
	for _, path := range regexp.MustCompile(`/static/[0-9a-f]{12}/[a-z.]+`).FindAllString(p.get("/").body, -1) {
		got := p.get(path)
		got.has(t, http.StatusOK)
		if !strings.Contains(got.header.Get("Cache-Control"), "immutable") || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers are %v", path, got.header)
		}
		old := p.get("/static/000000000000" + path[len("/static/")+12:])
		if old.body != got.body || old.header.Get("Cache-Control") != "no-store" {
			t.Errorf("an older address of %s: got %d %v", path, old.status, old.header)
		}
	}
}

// An account that the gate does not know yet has the whole of plan free
// before it.
func TestUsageOfUnknownAccount(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	gate.SetClock(time.Now)
	gate.SetPlans(t, api.Plans{
		Timezone: "Asia/Kolkata",
		Endpoints: []api.Endpoint{
			{Name: "convert", Method: "GET", Path: "/api/convert/{from}/{amount}/{to}", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}},
			{Name: "rates", Method: "GET", Path: "/api/rates/{base}", Patterns: []string{"GET /api/rates/{base}"}},
			{Name: "history", Method: "GET", Path: "/api/history/{from}/{to}", Patterns: []string{"GET /api/history/{from}/{to}"}},
		},
		Plans: []api.Plan{{
			Name:       "free",
			Limits:     map[string]*int64{"convert": new(int64(40)), "rates": nil},
			MoreLimits: []api.PlanLimit{{Endpoint: "convert", Period: "month", Limit: 900}, {Endpoint: "all", Period: "second", Limit: 5}},
		}},
	})
	server := httptest.NewServer(gate.Handler())
	t.Cleanup(server.Close)
	emptyGate, err := client.New(server.URL, controltest.Secret)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *web.Config) { c.Gate = emptyGate })
	w.add("ada@example.com", "starter")
	got := w.person().signIn("ada@example.com").get("/usage")
	got.has(t, http.StatusOK, "plan <strong>free</strong>", "<strong>0</strong> of 40 used", "<strong>40</strong> left",
		"<strong>0</strong> of 900 used", "Unlimited", "at most 5 a second", "at <time", ">00:00</time> (Asia/Kolkata)",
		"No calls in the last 30 days.")
	if n := strings.Count(got.body, `<span>Unlimited</span>`) + strings.Count(got.body, `role="meter"`); n != 3 {
		t.Errorf("shows %d meters, want 2 of endpoint convert and 1 of rates", n)
	}
}

// My usage takes the pace from the days that the gate counted.
func TestForecastOfGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gate.Control
	config := controltest.Config()
	config.Plans[1].MoreLimits = []policy.LimitConfig{{Endpoint: "convert", Period: "total", Limit: 3000}}
	g.Configure(t, config)
	a := w.add("ada@example.com", "starter")
	limits := []store.Limit{{Endpoint: "convert", Period: store.Total, Max: 3000, Included: 3000}}
	for ago := range calendar.Day(4) {
		call := store.Call{Account: a.ID, Endpoint: "convert", Day: g.Policy().Calendar.At(g.Now()).Day - ago, At: g.Now(), Cost: 100}
		if ok, err := g.Opened().Take(t.Context(), call, limits, make([]store.Room, 1)); !ok || err != nil {
			t.Fatalf("taking a call: %v, %v", ok, err)
		}
	}
	ada := w.person().signIn("ada@example.com")
	zone, err := time.LoadLocation(config.Timezone)
	if err != nil {
		t.Fatal(err)
	}
	before := g.Now()
	got := ada.get("/usage")
	got.has(t, http.StatusOK, "<strong>400</strong> of 3,000 used", "It does not renew. At the pace of the last 3 days, what is left lasts until ")
	var ends []string
	for _, now := range []time.Time{before, g.Now()} {
		ends = append(ends, " until "+now.Add(26*24*time.Hour-1).In(zone).Format("2 Jan"))
	}
	if !strings.Contains(got.body, ends[0]) && !strings.Contains(got.body, ends[1]) {
		t.Errorf("lacks %q: %s", ends, got.body)
	}
}
