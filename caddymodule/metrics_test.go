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

// TestUnavailableLogins: a login counts as unavailable, and not as abandoned, if
// the service does not answer, or with 5xx, also with errors pass.
func TestUnavailableLogins(t *testing.T) {
	for _, option := range []string{"", "errors pass"} {
		s := start(t, setup{
			more: option, upstream: code(http.StatusInternalServerError),
			behind: "@away path /api/login\nreverse_proxy @away " + deadAddress + "\nreverse_proxy UPSTREAM",
		})
		for _, path := range []string{"/api/login", "/login"} {
			count := func(outcome string) float64 { return value(t, "logins_total", fmt.Sprintf("outcome=%q", outcome)) }
			unavailable, abandoned := count("unavailable"), count("abandoned")
			s.ask(t, "POST", path, `{"email":"ada@example.com"}`, asJSON)
			if count("unavailable") != unavailable+1 || count("abandoned") != abandoned {
				t.Errorf("%q, %s: got %g unavailable and %g abandoned, want one unavailable more than %g and %g", option, path, count("unavailable"), count("abandoned"), unavailable, abandoned)
			}
		}
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
