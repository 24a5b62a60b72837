package caddymodule_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// TestWarnings: each load warns of what accounts have and the configuration has
// not. A change of the zone is a finding of the first load that serves it.
func TestWarnings(t *testing.T) {
	s, log := logged(t, "WARN", setup{zone: calmZone(), port: freePort(t)})
	_, bearer := s.account(t, "starter", "convert")
	if got := s.get(t, convert, bearer); got.status != 200 {
		t.Fatalf("got %+v", got)
	}
	seen := 0
	wantFindings := func(what string, want ...string) {
		t.Helper()
		if err := s.reload(); err != nil {
			t.Fatal(err)
		}
		var findings []string
		eventually(t, what, func() bool {
			findings = nil
			for line := range strings.Lines(log()[seen:]) {
				var entry struct{ Level, Finding string }
				if json.Unmarshal([]byte(line), &entry) == nil && entry.Finding != "" && entry.Level == "warn" {
					findings = append(findings, entry.Finding)
				}
			}
			return len(findings) >= len(want)
		})
		seen = len(log())
		for i, text := range want {
			if len(findings) != len(want) || !strings.Contains(findings[i], text) {
				t.Errorf("%s: got %q, want %q", what, findings, want)
			}
		}
	}
	const plan = `1 account has the plan "starter"`
	s.gate = strings.ReplaceAll(usual, "plan starter", "plan other")
	wantFindings("a plan", plan)
	zone := s.zone
	s.zone = "Pacific/Kiritimati"
	wantFindings("plan and zone", plan, "time zone "+zone+", and the configuration has Pacific/Kiritimati")
	eventually(t, "the zone of the counts", func() bool {
		stored, err := s.store(t).Timezone(t.Context())
		return err == nil && string(stored) == s.zone
	})
	wantFindings("the zone again", plan)
	s.zone, s.gate = zone, `guard /api/
		endpoint rates GET /api/rates/{base}
		plan starter {
			rates 1
		}`
	wantFindings("endpoint and ability", `1 live key has the ability "convert"`, `endpoint "convert" (calls: 1)`, "and the configuration has "+zone)
}

// TestCheck runs the command against a running gate: it finds what a
// configuration takes from accounts, and nothing in the one in force.
func TestCheck(t *testing.T) {
	c := newControlledCaddy(t)
	if err := c.load(t, c.gateApp("starter")); err != nil {
		t.Fatal(err)
	}
	gate, plan := c.adminClient(t), "starter"
	if _, err := gate.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: &plan}); err != nil {
		t.Fatal(err)
	}
	key, err := gate.CreateKey(t.Context(), "acc_1", api.KeyRequest{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gate/api/convert", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key.Token)
	response, err := c.transport("site.sock").RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", response, err)
	}
	response.Body.Close()
	eventually(t, "the zone of the counts", func() bool {
		census, err := gate.Census(t.Context())
		return err == nil && census.Timezone == "UTC"
	})

	file := filepath.Join(c.dir, "gate.json")
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(c.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	endpoint := func(name string, rename ...string) func(app object) {
		return func(app object) {
			app["endpoints"] = []object{{"name": name, "patterns": []string{"GET /api/convert"}, "rename": rename}}
			app["plans"] = []object{{"name": "starter", "limits": object{name: 10}}}
		}
	}
	for name, test := range map[string]struct {
		change func(app object)
		want   []string
	}{
		"nothing":        {func(object) {}, nil},
		"plan":           {func(app object) { app["plans"] = []object{{"name": "free"}} }, []string{`1 account has the plan "starter"`}},
		"renamed":        {endpoint("exchange", "convert"), nil},
		"without rename": {endpoint("exchange"), []string{`1 live key has the ability "convert"`, `the endpoint "convert" (calls: 1)`}},
	} {
		app := c.gateApp("starter")
		test.change(app)
		write("gate.json", string(c.config(t, app)))
		out, complaints, status := c.command(t, "check", "--config", file)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(test.want) == 0 {
			if status != 0 || out != "Nothing is lost.\n" || complaints != "" {
				t.Errorf("%s: got %d, %q, %q", name, status, out, complaints)
			}
			if out, _, status := c.command(t, "check", "--config", file, "--json"); status != 0 || out != `{"findings":[]}`+"\n" {
				t.Errorf("%s: got %d, %q as JSON", name, status, out)
			}
			continue
		}
		if status != 1 || len(lines) != len(test.want) || !strings.Contains(complaints, "the configuration does not have what accounts have") {
			t.Errorf("%s: got %d, %q, %q", name, status, out, complaints)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s: got %q, want %q in it", name, lines[i], want)
			}
		}
		if out, _, status := c.command(t, "check", "--config", file, "--json"); status != 1 || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, `{"findings":["`) {
			t.Errorf("%s: got %d, %q as JSON", name, status, out)
		}
	}

	unknown := c.gateApp("starter")
	unknown["colour"] = "red"
	caddyfile := write("Caddyfile", "{\n\ttollgate {\n\t\tstore badger /srv/gate\n\t\tsecret "+secret+"\n\t\tplan starter {\n\t\t\tconvert 1\n\t\t}\n\t}\n}\n")
	for name, test := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"a mistake":        {[]string{"--config", caddyfile}, 1, `there is no endpoint "convert": endpoints are none, at ` + caddyfile + ":6"},
		"the adapter":      {[]string{"--config", caddyfile, "--adapter", "caddyfile"}, 1, `there is no endpoint "convert"`},
		"an unknown field": {[]string{"--config", write("unknown.json", string(c.config(t, unknown)))}, 1, `unknown field "colour"`},
		"no gate in it":    {[]string{"--config", write("none.json", "{}")}, 1, "no global option tollgate"},
		"no file":          {[]string{"--config", filepath.Join(c.dir, "none")}, 1, "no such file"},
		"no flag":          {nil, 2, "missing flag --config"},
		"an argument":      {[]string{"Caddyfile", "--config", file}, 2, `unexpected argument "Caddyfile"`},
	} {
		out, complaints, status := c.command(t, append([]string{"check"}, test.args...)...)
		if status != test.status || out != "" || !strings.Contains(complaints, test.want) {
			t.Errorf("%s: got %d, %q, %q; want %d and %q", name, status, out, complaints, test.status, test.want)
		}
	}
	c.admin = "unix//nowhere-at-all.sock"
	if _, complaints, status := c.command(t, "check", "--config", file); status != 1 || !strings.Contains(complaints, "the gate is unreachable") {
		t.Errorf("without a gate: got %d, %q", status, complaints)
	}
}
