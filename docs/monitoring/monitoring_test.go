// Package monitoring_test checks the alerts and the dashboard. A test in e2e
// runs their queries against a running gate.
package monitoring_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRules runs the tests of the alerts.
func TestRules(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("promtool"); err != nil {
		if os.Getenv("CI") != "true" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml", "rules_days_test.yml"}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

var (
	alert     = regexp.MustCompile(`(?m)^ +- alert: (.+)$`)
	alertName = regexp.MustCompile(`^Tollgate([A-Z][a-z]+)+$`)
	section   = regexp.MustCompile(`(?m)^### (Tollgate[A-Z].+)$`)
)

// TestAlerts checks that each alert has a section in operations.md, to which its
// runbook leads, that it fires in one test, and that it does not in another.
func TestAlerts(t *testing.T) {
	t.Parallel()
	rules, tests := read(t, "rules.yml"), read(t, "rules_test.yml")+read(t, "rules_days_test.yml")
	names := submatches(alert, rules)
	if len(names) == 0 {
		t.Fatal("rules.yml has no alerts")
	}
	if sections := submatches(section, read(t, "../operations.md")); !slices.Equal(sections, names) {
		t.Errorf("operations.md has sections for %q, the alerts are %q", sections, names)
	}
	for i, part := range alert.Split(rules, -1)[1:] {
		name := names[i]
		if !alertName.MatchString(name) {
			t.Errorf("alert %q: want a name like TollgateStoreDown", name)
		}
		for _, want := range []string{
			`\n {10}severity: (?:critical|warning|info)\n`, `\n {10}summary: '.+'\n`, `\n {10}description: '.+'\n`,
			`\n {10}runbook: 'https://[^']+/docs/operations\.md#` + strings.ToLower(name) + `'\n`,
		} {
			if !regexp.MustCompile(want).MatchString(part) {
				t.Errorf("alert %s has nothing that matches %s", name, want)
			}
		}
		for what, want := range map[string]string{"fires": `\n *- exp_labels: `, "does not fire": ` \[\]\n`} {
			if !regexp.MustCompile(`alertname: ` + name + `\n *exp_alerts:` + want).MatchString(tests) {
				t.Errorf("no test has a case in which %s %s", name, what)
			}
		}
	}
}

// TestDashboard checks the layout of the dashboard: 24 columns, no panel on
// another one, and no duplicate id.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) == 0 {
		t.Fatal("grafana.json has no panels")
	}
	for i, p := range dashboard.Panels {
		at := p.GridPos
		if at.W <= 0 || at.H <= 0 || at.X < 0 || at.X+at.W > 24 {
			t.Errorf("panel %q is at %+v", p.Title, at)
		}
		for _, other := range dashboard.Panels[:i] {
			o := other.GridPos
			if at.X < o.X+o.W && o.X < at.X+at.W && at.Y < o.Y+o.H && o.Y < at.Y+at.H {
				t.Errorf("panel %q is on panel %q", p.Title, other.Title)
			}
			if p.ID == other.ID {
				t.Errorf("panels %q and %q have the id %d", p.Title, other.Title, p.ID)
			}
		}
	}
}

// submatches returns the first submatch of each match.
func submatches(of *regexp.Regexp, text string) (all []string) {
	for _, match := range of.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
