package caddyupstream_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/goleak"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/caddyupstream"
)

// unwritable is a directory that nobody can make, not even root.
const unwritable = "/proc/tollgate"

// startMistakes are configurations that are refused, most of them at the
// start only.
func startMistakes(t *testing.T) map[string]struct{ options, want string } {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]struct{ options, want string }{
		"database of another kind":  {"database mysql://u:hunter2@127.0.0.1:1/x", "opening database"},
		"malformed database":        {"database postgres://u:hunter2@127.0.0.1:x/x", "opening database"},
		"database away":             {"database postgres://u:hunter2@127.0.0.1:1/x", "opening PostgreSQL database"},
		"directory is a file":       {"data /dev/null", "/dev/null: not a directory"},
		"directory not writable":    {"data " + unwritable, unwritable},
		"address":                   {"address ftp://rates.example", "invalid address"},
		"zone":                      {"timezone Mars", "invalid timezone"},
		"rates history":             {"rates_history ftp://u:hunter2@127.0.0.1/x", "invalid rates history"},
		"rates daily":               {"rates_daily hunter2", "invalid rates daily"},
		"empty file":                {"database {file." + empty + "}", "database: empty or unknown placeholder"},
		"unknown placeholder":       {"database postgres://u:{hunter2}@127.0.0.1:1/x", "database: empty or unknown placeholder"},
		"unknown placeholder alone": {"timezone {http.request.host}", "timezone: empty or unknown placeholder"},
	}
}

// with returns the setup with options that replace those of the same name.
func (s setup) with(options string) setup {
	name, _, _ := strings.Cut(options, " ")
	handler := "tollgate_upstream {\n"
	for _, line := range []string{"data " + s.data, "rates_history off", "rates_daily off"} {
		if !strings.HasPrefix(line, name+" ") {
			handler += line + "\n"
		}
	}
	s.site = "tollgate\n" + handler + options + "\n}"
	return s
}

// TestStartThatFails refuses the configuration, names the option, and leaves
// nothing open. The error has no password.
func TestStartThatFails(t *testing.T) {
	for name, c := range startMistakes(t) {
		t.Run(name, func(t *testing.T) {
			s := setup{data: filepath.Join(t.TempDir(), "data")}
			err := load(s.with(c.options).text())
			if err == nil {
				t.Fatal("it started", caddy.Stop())
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if open := openFiles(t, s.data); len(open) != 0 || len(caddyupstream.Apps()) != 0 {
				t.Errorf("open: %v, %v", open, caddyupstream.Apps())
			}
		})
	}
}

// TestReloadThatFails keeps the running configuration working.
func TestReloadThatFails(t *testing.T) {
	r := start(t, setup{port: freePort(t)})
	r.person(t, "ada@example.com")
	id, bearer := r.key(t)
	running, before := r.setup, caddyupstream.Apps()
	for name, c := range startMistakes(t) {
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
	if n, want := used(t, id), int64(len(startMistakes(t))); n != want {
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
	r := start(t, setup{gate: "timezone Europe/Berlin", options: "signup on"})
	r.person(t, "ada@example.com")
	before := caddyupstream.Apps()
	state := func() string {
		return fmt.Sprint(strings.Contains(r.ask(t, "GET", "/", "").body, "Asia/Kathmandu"), " ", r.signUp(t, fmt.Sprintf("p%d@example.com", r.accounts)))
	}
	for _, step := range []struct{ options, want string }{
		{"signup on", "false 303 "},
		{"signup on\naddress https://rates.example", "false 303 __Host-"},
		{"signup on\ntimezone Asia/Kathmandu", "true 303 "},
		{"timezone Asia/Kathmandu", "true 404 "},
	} {
		r.options = step.options
		r.accounts++
		if err := r.reload(); err != nil {
			t.Fatal(err)
		}
		if got := state(); got != step.want {
			t.Errorf("%q: got %q, want %q", step.options, got, step.want)
		}
		if got := r.login(t, "ada@example.com"); got.status != http.StatusOK {
			t.Errorf("%q: login: got %d %s", step.options, got.status, got.body)
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
				got, err := r.try(t.Context(), "GET", "/api/usage", "", "Authorization: Bearer "+bearer)
				if err == nil && got.status != http.StatusOK && got.status != http.StatusTooManyRequests {
					t.Errorf("usage: got %d %s", got.status, got.body)
				}
				got, err = r.try(t.Context(), "GET", "/openapi.json", "")
				if err != nil {
					continue
				}
				if admitted++; got.status != http.StatusOK {
					t.Errorf("got %d %s", got.status, got.body)
				}
			}
		}()
	}
	for i := range 20 {
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
	const warning = "rates_history or rates_daily changed; restart to apply it"
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	r.options = "timezone Asia/Kathmandu"
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	if text := read(t, logged); strings.Contains(text, warning) {
		t.Errorf("warned without a change: %s", text)
	}
	r.fetch = "rates_history off\nrates_daily http://u:hunter2@127.0.0.1:1/daily.xml"
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
	s.site = s.handler() // without the gate, whose headers are then suspect
	r := start(t, s)
	r.global = log("second")
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	r.ask(t, "GET", convert, "", "Tollgate-Account: acc_1")
	const warning = `"logger":"tollgate.upstream","msg":"refused a request with unproven headers of the gate"`
	if !strings.Contains(read(t, filepath.Join(dir, "second")), warning) || strings.Contains(read(t, filepath.Join(dir, "first")), warning) {
		t.Errorf("the first log is %s\nthe second %s", read(t, filepath.Join(dir, "first")), read(t, filepath.Join(dir, "second")))
	}
}

// TestTwoSites share one App: the accounts of one are those of the other.
func TestTwoSites(t *testing.T) {
	s := setup{data: filepath.Join(t.TempDir(), "data"), port: freePort(t), options: "signup on"}
	s.address = fmt.Sprintf("http://gate.test:%d", s.port)
	s.more = fmt.Sprintf("http://other.test:%d {\nbind 127.0.0.1\ntollgate\n%s}", s.port, strings.Replace(s.handler(), "signup on", "timezone Asia/Kathmandu", 1))
	r := start(t, s)
	if n := len(caddyupstream.Apps()); n != 1 {
		t.Errorf("%d Apps are open, want 1", n)
	}
	r.person(t, "ada@example.com")
	credentials := fmt.Sprintf(`{"email":"ada@example.com","password":%q}`, password)
	for host, want := range map[string][2]int{"gate.test": {200, 200}, "other.test": {200, 404}} {
		base := fmt.Sprintf("http://%s:%d", host, s.port)
		login := r.ask(t, "POST", base+"/api/login", credentials, "Content-Type: application/json")
		form := r.ask(t, "GET", base+"/signup", "")
		if got := [2]int{login.status, form.status}; got != want {
			t.Errorf("%s: got %v, want %v", host, got, want)
		}
	}
}

// TestTwoDirectories are two Apps with accounts of their own.
func TestTwoDirectories(t *testing.T) {
	s := setup{data: filepath.Join(t.TempDir(), "data"), port: freePort(t)}
	s.address = fmt.Sprintf("http://gate.test:%d", s.port)
	other := strings.ReplaceAll(s.handler(), s.data, s.data+"2")
	s.more = fmt.Sprintf("http://other.test:%d {\nbind 127.0.0.1\ntollgate\n%s}", s.port, other)
	r := start(t, s)
	if n := len(caddyupstream.Apps()); n != 2 {
		t.Errorf("%d Apps are open, want 2", n)
	}
	r.person(t, "ada@example.com")
	credentials := fmt.Sprintf(`{"email":"ada@example.com","password":%q}`, password)
	for host, want := range map[string]int{"gate.test": 200, "other.test": 401} {
		got := r.ask(t, "POST", fmt.Sprintf("http://%s:%d/api/login", host, s.port), credentials, "Content-Type: application/json")
		if got.status != want {
			t.Errorf("%s: got %d, want %d", host, got.status, want)
		}
	}
	// Without its site, the second App is closed.
	r.more = ""
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	if open := openFiles(t, s.data+"2"); len(open) != 0 || len(caddyupstream.Apps()) != 1 {
		t.Errorf("open: %v, %v", open, caddyupstream.Apps())
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

// TestStop leaves no goroutine and no open file.
func TestStop(t *testing.T) {
	first := start(t, setup{}) // what Caddy keeps for the process begins here
	first.stop(t)
	ignored := goleak.IgnoreCurrent()
	r := start(t, setup{})
	r.person(t, "ada@example.com")
	_, bearer := r.key(t)
	if got := r.get(t, convert, bearer); got.status != http.StatusOK {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := r.login(t, "ada@example.com"); got.status != http.StatusOK {
		t.Errorf("login: got %d %s", got.status, got.body)
	}
	if len(openFiles(t, r.data)) == 0 {
		t.Error("no open file: the check after the stop would find nothing")
	}
	r.stop(t)
	if open := openFiles(t, r.data); len(open) != 0 || len(caddyupstream.Apps()) != 0 {
		t.Errorf("open: %v, %v", open, caddyupstream.Apps())
	}
	goleak.VerifyNone(t, ignored)
}

// TestBeforeOpen: a request that arrives before the database is open gets
// 502, as from an upstream that has not started, and its call is refunded.
func TestBeforeOpen(t *testing.T) {
	r := start(t, setup{})
	id, bearer := r.key(t)
	r.stop(t)

	// The gate calls atStart when its store is open, before the handler
	// behind it opens the database.
	var got answered
	atStart = func(ctx caddy.Context) error {
		site, err := ctx.App("http")
		if err != nil {
			return err
		}
		request := httptest.NewRequest(http.MethodGet, "http://gate.test"+convert, nil)
		request.Header.Set("Authorization", "Bearer "+bearer)
		answer := httptest.NewRecorder()
		for _, server := range site.(*caddyhttp.App).Servers {
			server.ServeHTTP(answer, request)
		}
		got = answered{answer.Code, answer.Header(), answer.Body.String()}
		return nil
	}
	t.Cleanup(func() { atStart = nil })
	r.site = "route {\ntest_start\ntollgate\n" + r.handler() + "}\n"
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	if got.status != http.StatusBadGateway || got.code() != "upstream_unreachable" || used(t, id) != 0 {
		t.Errorf("got %d %s, counted %d", got.status, got.body, used(t, id))
	}
	if got := r.get(t, convert, bearer); got.status != http.StatusOK || used(t, id) != 1 {
		t.Errorf("afterwards: got %d %s, counted %d", got.status, got.body, used(t, id))
	}
}

// atStart is what startHandler does when the gate starts.
var atStart func(caddy.Context) error

// startHandler is a handler with work at the start.
type startHandler struct{}

func (startHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_start", New: func() caddy.Module { return new(startHandler) }}
}

func (startHandler) Provision(ctx caddy.Context) error {
	gate, err := caddymodule.Configured(ctx)
	if err != nil {
		return err
	}
	gate.AtStart(func() error { return atStart(ctx) })
	return nil
}

func (startHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

func init() {
	caddy.RegisterModule(startHandler{})
	httpcaddyfile.RegisterHandlerDirective("test_start", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return startHandler{}, nil
	})
}

// freePort is a port that a site can listen on across reloads.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// TestReloadKeepsNoConfiguration: the open App does not hold the
// configuration that opened it in memory.
func TestReloadKeepsNoConfiguration(t *testing.T) {
	r := start(t, setup{})
	running, err := caddy.ActiveContext().AppIfConfigured("tollgate")
	if err != nil {
		t.Fatal(err)
	}
	first := weak.Make(running.(*caddymodule.App))
	running = nil
	r.options = "timezone Asia/Kathmandu"
	for i := range 20 {
		r.more = fmt.Sprintf("http://site%d.test:0 {\nrespond x\n}", i)
		if err := r.reload(); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		if first.Value() == nil {
			return
		}
	}
	t.Error("the first configuration is still in memory")
}
