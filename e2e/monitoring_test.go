package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// prometheus is a running Prometheus.
type prometheus struct{ url string }

// startPrometheus starts Prometheus with a configuration in a directory, and
// stops it at the end of the test.
func startPrometheus(t *testing.T, dir string) *prometheus {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		if os.Getenv("CI") != "true" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	address := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	cmd := exec.Command("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)
	var out stack.Output
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		// An error means that it has ended.
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			<-ended
			t.Error("Prometheus does not end")
		}
		if t.Failed() {
			t.Logf("the output of Prometheus:\n%s", &out)
		}
	})
	p := &prometheus{"http://" + address}
	eventually(t, "Prometheus", func() error {
		response, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("got %s", response.Status)
		}
		return nil
	})
	return p
}

// get decodes the data of an answer of the API.
func (p *prometheus) get(path string, parameters url.Values, data any) error {
	response, err := http.Get(p.url + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	if answer.Error != "" {
		return fmt.Errorf("got %s", answer.Error)
	}
	return nil
}

// has returns an error if a query is invalid or has no result.
func (p *prometheus) has(query string) error {
	var data struct{ Result []any }
	if err := p.get("/api/v1/query", url.Values{"query": {query}}, &data); err != nil {
		return fmt.Errorf("query %s: %w", query, err)
	}
	if len(data.Result) == 0 {
		return fmt.Errorf("query %s has no result", query)
	}
	return nil
}

// monitor starts Prometheus with the alerts, and with the scrape_configs of
// docs/operations.md for the metrics of a gate at an address and for upstream.
func monitor(t *testing.T, s *stack.Stack, gate, interval, rules string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"rules.yml":      rules,
		"prometheus.yml": block(t, "yaml", "127.0.0.1:9180", gate, "127.0.0.1:9000", s.Listen(), "15s", interval),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return startPrometheus(t, dir)
}

// alert is a rule in Prometheus.
type alert struct{ Name, Query, State, Health, LastError string }

func (p *prometheus) alerts(t *testing.T) map[string]alert {
	t.Helper()
	var data struct {
		Groups []struct{ Rules []alert }
	}
	must(t, p.get("/api/v1/rules", nil, &data))
	all := map[string]alert{}
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			all[rule.Name] = rule
		}
	}
	return all
}

// awaitAlert waits until an alert fires or will fire after its time, or until
// it does not.
func (p *prometheus) awaitAlert(t *testing.T, name string, want bool) {
	t.Helper()
	eventually(t, name, func() error {
		if a := p.alerts(t)[name]; a.Health != "ok" || (a.State != "inactive") != want {
			return fmt.Errorf("got %+v, want active: %t", a, want)
		}
		return nil
	})
}

// documentation returns a file of docs/monitoring.
func documentation(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(stack.Root(), "docs", "monitoring", name))
	must(t, err)
	return string(text)
}

// block returns the only block of a language in "Metrics" of docs/operations.md
// with each old string replaced by the new string after it.
func block(t *testing.T, language string, oldnew ...string) string {
	t.Helper()
	_, page, _ := strings.Cut(documentation(t, "../operations.md"), "\n## Metrics\n")
	page, _, _ = strings.Cut(page, "\n## ")
	blocks := regexp.MustCompile("(?s)\n```"+language+"\n(.*?\n)```\n").FindAllStringSubmatch(page, -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/operations.md has %d blocks of %s, want 1", len(blocks), language)
	}
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(blocks[0][1], oldnew[i]) {
			t.Fatalf("the block of %s has no %q", language, oldnew[i])
		}
	}
	return strings.NewReplacer(oldnew...).Replace(blocks[0][1])
}

var (
	selector  = regexp.MustCompile(`\b(?:(?:caddy|go|process|promhttp|currency)_\w+|up)\b(?:\{[^}]*\})?`)
	variables = strings.NewReplacer("$__rate_interval", "1m", "$job", "tollgate", "$instance", ".*")
)

// dashboardQueries returns the queries of the dashboard and of its variables.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	dashboard := decode[struct {
		Panels     []struct{ Targets []struct{ Expr string } }
		Templating struct {
			List []struct {
				Type  string
				Query json.RawMessage
			}
		}
	}](t, documentation(t, "grafana.json"))
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, variables.Replace(target.Expr))
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			// label_values is a function of Grafana.
			queries = append(queries, selector.FindString(variables.Replace(decode[struct{ Query string }](t, string(v.Query)).Query)))
		}
	}
	return queries
}

// TestMonitoring scrapes a gate as docs/operations.md says. Each query
// of the dashboard and each part of an alert has a result. Some alerts are
// provoked; before, they are not active.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	target := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	caddyfile := func(option string) string {
		return stack.Shipped(t, "grace_period 10s\n", "grace_period 10s\nmetrics\n", "guard /api/\n", "guard /api/\n"+option) +
			block(t, "caddyfile", "127.0.0.1:9180", target)
	}
	s := stack.Start(t, caddyfile("mode shadow\n"))
	p := monitor(t, s, target, "200ms", documentation(t, "rules.yml"))
	key := newKey(t, s, newAccount(t, s, "ada@example.com", "starter"), "ci")
	call := func(wanted ...string) {
		t.Helper()
		eventually(t, "metrics", func() error {
			answered(t, s, "GET", ratesPath, key.Token, "")
			answered(t, s, "GET", ratesPath, "", "")
			for _, query := range wanted {
				if err := p.has(query); err != nil {
					return err
				}
			}
			return nil
		})
	}

	call(`increase(caddy_tollgate_requests_total{mode="shadow", outcome="admitted"}[1m]) > 0`)
	p.awaitAlert(t, "TollgateShadowForLong", true)
	s.Configure(caddyfile(""))
	must(t, s.Reload())
	queries := dashboardQueries(t)
	call(append(queries, `increase(caddy_tollgate_requests_total{mode="enforce", outcome="admitted"}[1m]) > 0`)...)

	alerts := p.alerts(t)
	if len(alerts) != strings.Count(documentation(t, "rules.yml"), "- alert: ") || len(queries) < 30 {
		t.Errorf("got %d alerts and %d queries; the test no longer understands the files", len(alerts), len(queries))
	}
	for _, a := range alerts {
		if a.Health != "ok" {
			t.Errorf("got %+v", a)
		}
		for _, part := range selector.FindAllString(a.Query, -1) {
			// A scrape that takes longer than its interval ends all results until the next.
			eventually(t, a.Name, func() error { return p.has(part) })
		}
	}
	for _, name := range []string{"TollgateDown", "TollgateNotScraped", "TollgateStoreDown", "TollgateReloadFailed"} {
		p.awaitAlert(t, name, false)
	}
	s.Configure(strings.Replace(caddyfile(""), "{env.TOLLGATE_SECRET}", "{env.TOLLGATE_NO_SECRET}", 1))
	if err := s.Reload(); err == nil {
		t.Error("a wrong configuration was loaded")
	}
	p.awaitAlert(t, "TollgateReloadFailed", true)
	s.StopCaddy()
	p.awaitAlert(t, "TollgateDown", true)
}
