package caddymodule_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule"
)

// value returns the sum of a metric of the gate over the labels that are not
// given, as name="value".
func value(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	active := caddy.ActiveContext()
	families, err := active.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			lacks := func(label string) bool { return !slices.Contains(has, label) }
			if family.GetName() == "caddy_tollgate_"+name && !slices.ContainsFunc(labels, lacks) {
				found = true
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	if !found {
		t.Fatalf("no metric %s %q", name, labels)
	}
	return sum
}

// TestFailures: a call counts as failed if the service does not answer, or with
// 5xx, and a login as unavailable, also with errors pass.
func TestFailures(t *testing.T) {
	for _, option := range []string{"", "errors pass"} {
		t.Run(option, func(t *testing.T) {
			s := start(t, setup{
				zone: calmZone(), more: option,
				upstream: func(w http.ResponseWriter, r *http.Request) {
					if strings.Contains(r.URL.Path, "500") || r.URL.Path == "/login" {
						w.WriteHeader(http.StatusInternalServerError)
						return
					}
					w.WriteHeader(http.StatusForbidden)
				},
				behind: "@away path /api/convert/away/* /api/login\nreverse_proxy @away " + deadAddress + "\nreverse_proxy UPSTREAM",
			})
			_, bearer := s.account(t, "starter")
			login := func(path string) func() {
				return func() {
					s.ask(t, "POST", path, `{"email":"ada@example.com"}`, "Content-Type: application/json")
				}
			}
			call := func(path string) func() { return func() { s.get(t, path, bearer) } }
			failed := []string{"requests_total", `endpoint="convert"`, `outcome="failed"`}
			admitted := []string{"requests_total", `endpoint="convert"`, `outcome="admitted"`}
			unavailable := []string{"logins_total", `outcome="unavailable"`}
			abandoned := []string{"logins_total", `outcome="abandoned"`}
			for name, c := range map[string]struct {
				act   func()
				rises []string
				stays []string
			}{
				"500":                         {call("/api/convert/500/1/USD"), failed, nil},
				"away":                        {call("/api/convert/away/1/USD"), failed, nil},
				"403":                         {call("/api/convert/EUR/1/USD"), admitted, failed},
				"login: away":                 {login("/api/login"), unavailable, abandoned},
				"login: 500 from the service": {login("/login"), unavailable, abandoned},
			} {
				before := value(t, c.rises[0], c.rises[1:]...)
				stays := 0.0
				if c.stays != nil {
					stays = value(t, c.stays[0], c.stays[1:]...)
				}
				c.act()
				if got := value(t, c.rises[0], c.rises[1:]...) - before; got != 1 {
					t.Errorf("%s: %q rises by %g, want 1", name, c.rises, got)
				}
				if c.stays != nil && value(t, c.stays[0], c.stays[1:]...) != stays {
					t.Errorf("%s: %q rises", name, c.stays)
				}
			}
		})
	}
}

// TestLastBackup: the time of the last backup is kept over a restart. Only a
// backup that is in a file counts.
func TestLastBackup(t *testing.T) {
	c := newControlledCaddy(t)
	restart := func() float64 {
		t.Helper()
		stop(t)
		if err := c.load(t, c.gateApp("starter")); err != nil {
			t.Fatal(err)
		}
		return value(t, "backup_last_success_timestamp_seconds")
	}
	if got := restart(); got != 0 {
		t.Errorf("without a backup: got %f, want 0", got)
	}
	if err := c.adminClient(t).Backup(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := restart(); got != 0 {
		t.Errorf("after a backup that was not written to a file: got %f, want 0", got)
	}
	before := time.Now().Unix()
	if _, stderr, status := c.command(t, "backup", filepath.Join(t.TempDir(), "backup")); status != 0 {
		t.Fatal(stderr)
	}
	if got := int64(restart()); got < before || got > time.Now().Unix() {
		t.Errorf("got %d, want a time since %d", got, before)
	}
}

// TestWaitingEvent: an event that waits for the webhook has an age, unless the
// webhook is removed. The summary of the new configuration has no webhook then.
func TestWaitingEvent(t *testing.T) {
	checks := func() (text string) {
		t.Helper()
		summary, err := caddymodule.ControlClient().Summary(t.Context())
		for _, check := range summary.Checks {
			text += check.Name + ": " + check.Message + "\n"
		}
		if err != nil {
			t.Error(err)
		}
		return text
	}
	webhook := "webhook http://" + deadAddress + " {\n\tsecret whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\n}"
	s := start(t, setup{zone: calmZone(), more: webhook})
	changeAccount(t, "acc_1")
	eventually(t, "the event", func() bool {
		app(t).Follow() // a busy machine may need another one
		return value(t, "webhook_oldest_seconds") > 0 && value(t, "webhook_queue") == 1
	})
	if got := checks(); !strings.HasPrefix(got, "webhook: Events that wait for delivery: 1, ") {
		t.Errorf("with a webhook: got the checks %s", got)
	}
	s.more = ""
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	if got := checks(); strings.Contains(got, "webhook") {
		t.Errorf("without a webhook: got the checks %s", got)
	}
	if got := value(t, "webhook_oldest_seconds"); got != 0 {
		t.Errorf("without a webhook: got %g seconds, want 0", got)
	}
}

// TestDroppedEvents counts the events that slow handlers do not get.
func TestDroppedEvents(t *testing.T) {
	start(t, setup{zone: calmZone(), global: "events {\n\ton tollgate.account_changed tollgate_test\n}"})
	before := value(t, "events_dropped_total")
	handled.Lock() // the handler waits
	defer handled.Unlock()
	for i := range 1026 { // one in the handler, 1024 that wait
		changeAccount(t, fmt.Sprintf("acc_%d", i))
	}
	eventually(t, "a dropped event", func() bool {
		app(t).Follow() // a busy machine may need another one
		return value(t, "events_dropped_total") > before
	})
}

// TestMetricsDocumented: the table in docs/operations.md has each metric with
// its labels, and no other.
func TestMetricsDocumented(t *testing.T) {
	start(t, setup{})
	active := caddy.ActiveContext()
	families, err := active.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, family := range families {
		if name := family.GetName(); regexp.MustCompile(`^caddy_tollgate_`).MatchString(name) {
			labels := ""
			for i, label := range family.GetMetric()[0].GetLabel() {
				if i > 0 {
					labels += ","
				}
				labels += label.GetName()
			}
			if labels != "" {
				name += "{" + labels + "}"
			}
			got[name] = true
		}
	}
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(caddy_tollgate_[^`]*)` \\|").FindAllStringSubmatch(string(text), -1) {
		want[row[1]] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, documented %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
