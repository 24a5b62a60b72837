package caddymodule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// FuzzCaddyfile: what the parser accepts is a configuration that loads,
// and what it refuses it refuses with a line.
func FuzzCaddyfile(f *testing.F) {
	const head = "store badger /srv/gate\nsecret 0123456789abcdef0123456789abcdef\n"
	for _, body := range []string{
		"", "guard /api/ /v2/", "timezone Europe/Berlin", "login POST /login {\nper_client 5 1m\nper_account 10 30s 15m\n}",
		"endpoint a GET /a/{b} {\nability c\n}\nplan p {\na 5\n}", "usage GET /u\nplan p {\nusage unlimited\n}", "plan {", "endpoint", "store badger x {\nsync on\n}",
		"refund never\nerrors pass\nlogin_ttl 2d", "plan \"a b\"", "guard {\n}", "login POST /a\nlogin POST /{b}", "secret {env.X}", "}\n{",
		"endpoint a GET /a {\ncost 5\n}\nendpoint b POST /b {\ncost json items 1MiB\n}\nendpoint c GET /c {\ncost answer X-Rows reserve 9\n}\nplan p {\na 5 month\n* 10 second\na 3\nb unlimited hour\n}",
		"endpoint a GET /a\nplan p {\nall 5\n}", "endpoint a GET /a\nplan p {\na 5\na 5 day\n}", "endpoint a GET /a\nplan p {\na 5 \"\"\n* 0 hour\n}",
	} {
		f.Add(head + body)
		f.Add(body)
	}
	located := regexp.MustCompile(`Testfile:\d+`)
	f.Fuzz(func(t *testing.T, body string) {
		value, err := parseApp(caddyfile.NewTestDispenser("tollgate {\n"+body+"\n}"), nil)
		if err != nil {
			if !located.MatchString(err.Error()) {
				t.Fatalf("got %v, want a line", err)
			}
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(value.(httpcaddyfile.App).Value))
		decoder.DisallowUnknownFields()
		var app App
		if err := decoder.Decode(&app); err != nil {
			t.Fatal(err)
		}
		if _, err := app.check(true); err != nil {
			t.Fatalf("accepted what does not load: %v", err)
		}
	})
}

// TestOrderOfPlan: the limits of the calls to an endpoint are in the order of
// the lines of the plan. An endpoint with a line is in the plan. Lines that open
// no endpoint are refused.
func TestOrderOfPlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "usage", "*"})
		lines := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) string {
			return name.Draw(t, "endpoint") + " " + rapid.SampledFrom(store.Periods).Draw(t, "period")
		}), rapid.ID).Draw(t, "lines")
		text := "tollgate {\nstore badger /x\nsecret 0123456789abcdef0123456789abcdef\nusage GET /u\nendpoint a GET /a\nendpoint b GET /b\nplan p"
		if len(lines) > 0 {
			text += " {\n"
			for i, line := range lines {
				endpoint, period, _ := strings.Cut(line, " ")
				if period == "day" && rapid.Bool().Draw(t, "without a period") {
					period = ""
				}
				text += fmt.Sprintln(endpoint, i+1, period)
			}
			text += "}"
		}
		value, err := parseApp(caddyfile.NewTestDispenser(text+"\n}"), nil)
		opens := len(lines) == 0 || slices.ContainsFunc(lines, func(line string) bool { return line[0] != '*' })
		if (err == nil) != opens {
			t.Fatalf("got %v, of\n%s", err, text)
		}
		if !opens {
			return
		}
		var app App
		if err := json.Unmarshal(value.(httpcaddyfile.App).Value, &app); err != nil {
			t.Fatal(err)
		}
		compiled, err := policy.New(app.Config)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range compiled.Endpoints {
			var want, got []string
			for i, line := range lines {
				endpoint, period, _ := strings.Cut(line, " ")
				if endpoint == e.Name || endpoint == "*" && !e.Usage {
					want = append(want, fmt.Sprintln(strings.Replace(endpoint, "*", "all", 1), period, i+1))
				}
			}
			plan := compiled.Plan("p")
			listed := slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, e.Name+" ") })
			if plan.Lists(e) != listed {
				t.Fatalf("the plan lists %s: %t, want %t", e.Name, plan.Lists(e), listed)
			}
			for _, l := range plan.LimitsOf(e, nil, time.Time{}) {
				got = append(got, fmt.Sprintln(l.Endpoint, l.Period, l.Max))
			}
			if listed && !slices.Equal(got, want) {
				t.Fatalf("%s: got %v, want %v, of\n%s", e.Name, got, want, text)
			}
		}
	})
}
