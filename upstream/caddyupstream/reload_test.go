package caddyupstream_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/caddyupstream"
)

// sameApps checks that the same Apps are open as before.
func sameApps(t *testing.T, before map[string]*app.App) {
	t.Helper()
	after := caddyupstream.Apps()
	if !maps.Equal(before, after) || len(before) == 0 {
		t.Errorf("open Apps: before %v, after %v", before, after)
	}
}

// TestReload keeps the database open, and changes the parts of the site.
func TestReload(t *testing.T) {
	r := start(t, setup{options: "signup free"})
	r.person(t, "ada@example.com")
	before := caddyupstream.Apps()
	for i, step := range []struct {
		gate, options string
		zone          bool
		signUp        string
	}{
		{"", "signup free", false, "303 "},
		{"", "signup free\naddress https://rates.example", false, "303 __Host-"},
		{"timezone Asia/Kathmandu", "signup on", true, "303 "},
		{"timezone Asia/Kathmandu", "signup off", true, "404 "},
		{"timezone Asia/Kathmandu", "", true, "404 "},
	} {
		r.gate, r.options = step.gate, step.options
		if err := r.reload(); err != nil {
			t.Fatal(err)
		}
		if got := r.signUp(t, fmt.Sprintf("p%d@example.com", i)); got != step.signUp {
			t.Errorf("%+v: the sign-up answers %q", step, got)
		}
		if got := r.ask(t, "GET", "/", ""); strings.Contains(got.body, "Asia/Kathmandu") != step.zone {
			t.Errorf("%+v: the page has %s", step, got.body)
		}
		if got := r.login(t, "ada@example.com"); got.status != http.StatusOK {
			t.Errorf("%+v: login: got %d %s", step, got.status, got.body)
		}
		sameApps(t, before)
	}
}

// TestRatesURLsChanged: the open rates keep their URLs, and the log says so.
func TestRatesURLsChanged(t *testing.T) {
	logged := filepath.Join(t.TempDir(), "log")
	r := start(t, setup{global: "log {\noutput file " + logged + "\n}"})
	before := caddyupstream.Apps()
	const warning = "the URL of rates differs from the one in use, and is ignored until a restart"
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	r.options = "name Weather"
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	if text := read(t, logged); strings.Contains(text, warning) {
		t.Errorf("warned without a change: %s", text)
	}
	r.fetch = "rates http://u:hunter2@127.0.0.1:1"
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	if text := read(t, logged); strings.Count(text, warning) != 1 || strings.Contains(text, "hunter2") {
		t.Errorf("got %s", text)
	}
	sameApps(t, before)
}

// TestLogOfTheProcess: the App outlives the configuration that opened it,
// and logs where the one in force says.
func TestLogOfTheProcess(t *testing.T) {
	dir := t.TempDir()
	log := func(name string) string { return "log {\noutput file " + filepath.Join(dir, name) + "\n}" }
	s := setup{data: filepath.Join(dir, "data"), global: log("first")}
	s.site = s.handler() // without the gate
	r := start(t, s)
	r.global = log("second")
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	r.ask(t, "GET", convert, "", "Tollgate-Account: acc_1")
	const warning = `"logger":"tollgate.upstream","msg":"refused a request","error":"the request did not pass the directive tollgate"`
	first, second := read(t, filepath.Join(dir, "first")), read(t, filepath.Join(dir, "second"))
	// An earlier test's App logs its pending failures a minute later.
	_, reloaded, _ := strings.Cut(first, "redirected default logger")
	if !strings.Contains(second, warning) || reloaded == "" || strings.Contains(reloaded, warning) {
		t.Errorf("the first log is %s\nthe second %s", first, second)
	}
}

// TestOtherStore: the control API in memory is that of the configuration in
// force.
func TestOtherStore(t *testing.T) {
	s := setup{data: filepath.Join(t.TempDir(), "data")}
	s.site = "tollgate\n" + s.handler() // its directory stays
	r := start(t, s)
	r.person(t, "ada@example.com")
	before, first := caddyupstream.Apps(), r.data
	if got := r.login(t, "ada@example.com"); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	r.data = first + "2"
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	sameApps(t, before)
	// The other store does not know the account: its plan is free.
	if got := r.login(t, "ada@example.com"); got.status != http.StatusForbidden || got.code() != "plan_required" {
		t.Errorf("with the other store: got %d %s", got.status, got.body)
	}
	r.data = first
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	if got := r.login(t, "ada@example.com"); got.status != http.StatusOK {
		t.Errorf("with the first store: got %d %s", got.status, got.body)
	}
}

// TestReloadWithoutRates leaves out the currency API, and brings it back,
// without opening the database again.
func TestReloadWithoutRates(t *testing.T) {
	r := start(t, setup{fetch: "rates none"})
	_, bearer := r.key(t)
	before := caddyupstream.Apps()
	for _, step := range []struct {
		rates  string
		status int
	}{{"rates none", http.StatusNotFound}, {"rates embedded", http.StatusOK}, {"rates none", http.StatusNotFound}} {
		r.fetch = step.rates
		if err := r.reload(); err != nil {
			t.Fatal(err)
		}
		if got := r.get(t, convert, bearer); got.status != step.status {
			t.Errorf("%q: got %d %s, want %d", step.rates, got.status, got.body, step.status)
		}
		sameApps(t, before)
	}
}
