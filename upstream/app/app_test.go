package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/app"
)

const password = "correct horse battery staple"

func newOptions(t *testing.T, gate *gatetest.Gate, transport http.RoundTripper) app.Options {
	t.Helper()
	control, err := client.New("http://"+gate.Address, gatetest.Secret, client.WithTransport(transport))
	if err != nil {
		t.Fatal(err)
	}
	return app.Options{Directory: t.TempDir(), Control: control, Logger: slog.New(slog.DiscardHandler)}
}

func newSite(t *testing.T) app.Site {
	t.Helper()
	control, err := client.New("http://127.0.0.1:1", gatetest.Secret)
	if err != nil {
		t.Fatal(err)
	}
	check, err := app.CheckAssertions(gatetest.Secret, "https://rates.example", control, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return app.Site{Address: "https://rates.example", Timezone: "Europe/Berlin", Check: check}
}

// addAccount adds an account as the command line does: beside the App.
func addAccount(t *testing.T, options app.Options, email account.Email) {
	t.Helper()
	store, err := options.OpenDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = options.Accounts(store).Add(t.Context(), email, password, "starter")
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
}

// call sends a request as the gate does and returns status and body.
func call(t *testing.T, server *httptest.Server, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	purpose := assertion.Call
	if strings.HasSuffix(path, "/login") {
		purpose = assertion.Login
	}
	r.Header.Set(assertion.Header, gatetest.Assert(t, "rates.example", purpose))
	r.Header.Set("Content-Type", "application/json")
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(content)
}

// mounted is an App in a server, with one account.
type mounted struct {
	*app.App
	options app.Options
	server  *httptest.Server
	email   account.Email
}

func mount(t *testing.T, options app.Options, email account.Email) mounted {
	t.Helper()
	a, err := app.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := a.Handler(newSite(t))
	if err != nil {
		t.Fatal(errors.Join(err, a.Close()))
	}
	addAccount(t, options, email)
	return mounted{a, options, httptest.NewServer(handler), email}
}

// close stops the requests before the App, as Close requires.
func (m mounted) close(t *testing.T) {
	t.Helper()
	m.server.Close()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// Two Apps in one process share nothing, and Close leaves no goroutine and
// no open file.
func TestTwoAppsInOneProcess(t *testing.T) {
	gate := gatetest.Start(t)
	transport := &http.Transport{DisableKeepAlives: true}
	goroutines := runtime.NumGoroutine()

	var apps []mounted
	for _, email := range []account.Email{"ada@example.com", "grace@example.com"} {
		apps = append(apps, mount(t, newOptions(t, gate, transport), email))
	}
	login := func(m mounted, email account.Email) (int, string) {
		return call(t, m.server, http.MethodPost, "/api/login", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password))
	}
	for i, m := range apps {
		status, body := call(t, m.server, http.MethodGet, "/api/convert/EUR/10/USD", "")
		if status != http.StatusOK || !json.Valid([]byte(body)) || !strings.Contains(body, `"from":"EUR"`) {
			t.Errorf("conversion: got %d %s", status, body)
		}
		if status, body := call(t, m.server, http.MethodGet, "/", ""); status != http.StatusOK || !strings.Contains(body, "<html") {
			t.Errorf("front page: got %d %s", status, body)
		}
		if status, body := call(t, m.server, http.MethodGet, "/healthz", ""); status != http.StatusOK {
			t.Errorf("health: got %d %s", status, body)
		}
		if status, body := login(m, m.email); status != http.StatusOK || !strings.Contains(body, "tgl_") {
			t.Errorf("login: got %d %s", status, body)
		}
		if status, body := login(m, apps[1-i].email); status != http.StatusUnauthorized {
			t.Errorf("login with the account of the other App: got %d %s", status, body)
		}
		if len(openFiles(t, m.options.Directory)) == 0 {
			t.Errorf("no open file below %s: the check after Close would find nothing", m.options.Directory)
		}
	}

	apps[0].close(t)
	if status, body := login(apps[1], apps[1].email); status != http.StatusOK {
		t.Errorf("after the other App closed: got %d %s", status, body)
	}
	apps[1].close(t)
	for _, m := range apps {
		if open := openFiles(t, m.options.Directory); len(open) != 0 {
			t.Errorf("still open: %v", open)
		}
	}
	awaitGoroutines(t, goroutines)
}

// A site with NoRates has accounts and pages. It answers no path of the
// currency API, and fetches no rates until another site has that API.
func TestNoRates(t *testing.T) {
	options := newOptions(t, gatetest.Start(t), http.DefaultTransport)
	options.Rates = "http://127.0.0.1:1"
	a, err := app.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	site := newSite(t)
	site.NoRates = true
	handler, err := a.Handler(site)
	if err != nil {
		t.Fatal(err)
	}
	addAccount(t, options, "ada@example.com")
	server := httptest.NewServer(handler)
	defer server.Close()
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/api/convert/EUR/10/USD", "", 404, `"code":"not_found"`},
		{"GET", "/api/currencies", "", 404, `"code":"not_found"`},
		{"POST", "/api/convert/batch", `{"conversions":[]}`, 404, `"code":"not_found"`},
		{"GET", "/api", "", 404, `"code":"not_found"`},
		{"GET", "/openapi.json", "", 404, "Page not found"},
		{"GET", "/docs", "", 404, "Page not found"},
		{"GET", "/healthz", "", 200, `{"status":"ok","gate":"`},
		{"GET", "/", "", 200, "<title>API</title>"},
		{"POST", "/api/login", fmt.Sprintf(`{"email":"ada@example.com","password":%q}`, password), 200, `"token":"tgl_`},
	} {
		if status, body := call(t, server, c.method, c.path, c.body); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: got %d %s, want %d %s", c.method, c.path, status, body, c.status, c.want)
		}
	}
	if fetches() {
		t.Error("the rates are fetched in the background")
	}
	if _, err := os.Stat(filepath.Join(options.Directory, "rates")); !os.IsNotExist(err) {
		t.Errorf("the directory of the rates: got %v, want none", err)
	}

	site.NoRates = false
	if handler, err = a.Handler(site); err != nil {
		t.Fatal(err)
	}
	rates := httptest.NewServer(handler)
	defer rates.Close()
	if status, body := call(t, rates, "GET", "/api/convert/EUR/10/USD", ""); status != http.StatusOK {
		t.Errorf("another site: got %d %s", status, body)
	}
	for deadline := time.Now().Add(20 * time.Second); !fetches(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("another site with the currency API fetches no rates")
		}
	}
}

// fetches tells whether a goroutine of this process fetches rates.
func fetches() bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "ecb.(*Provider).Run")
}

// An App that cannot start leaves nothing open.
func TestOpenFails(t *testing.T) {
	gate := gatetest.Start(t)
	options := newOptions(t, gate, &http.Transport{DisableKeepAlives: true})
	goroutines := runtime.NumGoroutine()
	for name, c := range map[string]struct {
		edit func(o *app.Options)
		want string
	}{
		"data":     {func(o *app.Options) { o.Directory = "" }, `invalid directory: want a directory for the data`},
		"rates":    {func(o *app.Options) { o.Rates = "ftp://u:hunter2@x" }, `invalid rates: want an HTTP or HTTPS URL, or embedded`},
		"no URL":   {func(o *app.Options) { o.Rates = "off" }, `invalid rates: want an HTTP or HTTPS URL, or embedded`},
		"control":  {func(o *app.Options) { o.Control = nil }, `invalid control: want a client of the control API`},
		"logger":   {func(o *app.Options) { o.Logger = nil }, `invalid logger: want a logger`},
		"database": {func(o *app.Options) { o.Database = "mysql://x" }, `invalid database: want a URL that begins with postgres://`},
	} {
		o := options
		c.edit(&o)
		a, err := app.Open(t.Context(), o)
		if err == nil {
			t.Fatal(name, errors.Join(errors.New("it started"), a.Close()))
		}
		if err.Error() != c.want {
			t.Errorf("%s: got %q, want %q", name, err, c.want)
		}
	}
	if open := openFiles(t, options.Directory); len(open) != 0 {
		t.Errorf("still open: %v", open)
	}
	awaitGoroutines(t, goroutines)
}

// Each part of a site is checked.
func TestInvalidSite(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *app.Site)
		want string
	}{
		"address": {func(s *app.Site) { s.Address = "ftp://rates.example" }, `invalid address "ftp://rates.example": want http://host or https://host`},
		"zone":    {func(s *app.Site) { s.Timezone = "Local" }, `invalid timezone "Local": want an IANA zone such as Europe/Berlin`},
		"no zone": {func(s *app.Site) { s.Timezone = "" }, `invalid timezone: want an IANA zone such as Europe/Berlin`},
		"brand":   {func(s *app.Site) { s.Name = " " }, `invalid name " ": want 1 to 40 characters, without control characters`},
		"check":   {func(s *app.Site) { s.Check = nil }, `invalid check: want a check of requests`},
	} {
		site := newSite(t)
		c.edit(&site)
		if err := site.Validate(); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// openFiles returns the open files of this process below a directory.
func openFiles(t *testing.T, directory string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Fatal("listing open files:", err)
	}
	var open []string
	for _, link := range links {
		if file, err := os.Readlink(link); err == nil && strings.HasPrefix(file, directory) {
			open = append(open, file)
		}
	}
	return open
}

// awaitGoroutines waits until no more than want goroutines are left.
func awaitGoroutines(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), want, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
