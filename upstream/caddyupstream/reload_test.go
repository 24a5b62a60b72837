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

// TestReloadThatFails keeps the running configuration working.
func TestReloadThatFails(t *testing.T) {
	r := start(t, setup{port: freePort(t)})
	r.person(t, "ada@example.com")
	id, bearer := r.key(t)
	running, before := r.setup, caddyupstream.Apps()
	for name, c := range startMistakes {
		if err := load(running.with(c.options).text()); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
		if got := r.get(t, convert, bearer); got.status != http.StatusOK {
			t.Errorf("%s: got %d %s", name, got.status, got.body)
		}
	}
	if got := r.login(t, "ada@example.com"); got.status != http.StatusOK {
		t.Errorf("login: got %d %s", got.status, got.body)
	}
	if n, want := used(t, id), int64(len(startMistakes)); n != want {
		t.Errorf("counted %d calls, want %d", n, want)
	}
	sameApps(t, before)
}

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

// TestReloadUnderLoad refuses no call.
func TestReloadUnderLoad(t *testing.T) {
	r := start(t, setup{port: freePort(t)})
	_, bearer := r.key(t)
	done, ended := make(chan struct{}), make(chan int)
	for range 2 {
		go func() {
			admitted := 0
			defer func() { ended <- admitted }()
			for {
				select {
				case <-done:
					return
				default:
				}
				// A connection that is idle when its server stops can be
				// closed under a request.
				got, err := r.client.Try(t.Context(), "GET", "/api/usage", "", "Authorization: Bearer "+bearer)
				if err == nil && got.Status != http.StatusOK && got.Status != http.StatusTooManyRequests {
					t.Errorf("usage: got %d %s", got.Status, got.Body)
				}
				got, err = r.client.Try(t.Context(), "GET", "/openapi.json", "")
				if err != nil {
					continue
				}
				if admitted++; got.Status != http.StatusOK {
					t.Errorf("got %d %s", got.Status, got.Body)
				}
			}
		}()
	}
	for i := range 5 {
		r.more = fmt.Sprintf("http://site%d.test:%d {\nrespond x\n}", i, r.port)
		if err := r.reload(); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	if n := <-ended + <-ended; n == 0 {
		t.Error("no request was answered")
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
