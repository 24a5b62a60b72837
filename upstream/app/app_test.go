package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest/postgrestest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// Parse refuses invalid settings, without their passwords, and opens nothing.
func TestParse(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for name, c := range map[string]struct {
		settings app.Settings
		want     string
	}{
		"defaults":  {app.Settings{}, ""},
		"rates":     {app.Settings{Rates: "ftp://u:hunter2@x"}, `invalid rates: want an HTTP or HTTPS URL, embedded or none`},
		"no URL":    {app.Settings{Rates: "off"}, `invalid rates: want an HTTP or HTTPS URL, embedded or none`},
		"database":  {app.Settings{Database: "mysql://u:hunter2@x"}, `invalid database: want a URL that begins with postgres://`},
		"address":   {app.Settings{Address: "ftp://x"}, `invalid address "ftp://x": want http://host or https://host`},
		"time zone": {app.Settings{Timezone: "Local"}, `invalid timezone "Local": want an IANA zone such as Europe/Berlin`},
		"signup":    {app.Settings{SignUp: "yes"}, `invalid signup "yes": want off, on or the name of a plan`},
		"name":      {app.Settings{Name: " "}, `invalid name " ": want 1 to 40 characters, without control characters`},
	} {
		if c.settings.Data == "" {
			c.settings.Data = data
		}
		_, err := c.settings.Parse()
		if got := strings.TrimPrefix(fmt.Sprint(err), "<nil>"); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data directory is there: %v", err)
	}
	// One setting says whether strangers can sign up, and for which plan, and one
	// where rates come from.
	for signUp, want := range map[string]string{"off": "", "on": "free", "free": "free", "starter": "starter"} {
		if c, err := (app.Settings{SignUp: signUp}).Parse(); err != nil || c.SignUp != want {
			t.Errorf("%q: got %q, %v; want %q", signUp, c.SignUp, err, want)
		}
	}
	for rates, want := range map[string]string{"embedded": "", "none": ecb.BaseURL, "https://x.example": "https://x.example"} {
		if c, err := (app.Settings{Rates: rates}).Parse(); err != nil || c.RatesURL != want || c.NoRates != (rates == "none") {
			t.Errorf("%q: got %q and %t, %v; want %q", rates, c.RatesURL, c.NoRates, err, want)
		}
	}
	c, err := app.Settings{}.Parse()
	if err != nil || c.Address.String() != "http://localhost:8080" || c.Timezone != "UTC" || c.SignUp != "" ||
		!filepath.IsAbs(c.Directory) || !strings.HasSuffix(c.Directory, "/data/upstream") || c.RatesURL != ecb.BaseURL || c.NoRates {
		t.Errorf("the defaults are %+v, %v", c, err)
	}
}

// An App that cannot open its database leaves nothing open.
func TestOpenFails(t *testing.T) {
	gate := gatetest.Start(t)
	control, err := client.New("http://"+gate.Address, gatetest.Secret, client.WithTransport(&http.Transport{DisableKeepAlives: true}))
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	config, err := app.Settings{Data: data}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config.Directory, nil, 0o600); err != nil { // a file is no directory
		t.Fatal(err)
	}
	goroutines := runtime.NumGoroutine()
	if a, err := app.Open(t.Context(), config, control, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal(errors.Join(errors.New("it started"), a.Close()))
	}
	if open := openFiles(t, data); len(open) != 0 {
		t.Errorf("still open: %v", open)
	}
	awaitGoroutines(t, goroutines)
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

const password = "correct horse battery staple"

// site is a whole upstream without rates, with the account ada@example.com.
type site struct {
	t      *testing.T
	server *httptest.Server
	data   string
}

// serve serves a site until the test ends. Without a URL its database is a
// file.
func serve(t *testing.T, database string) *site {
	t.Helper()
	gate := gatetest.Start(t)
	data := t.TempDir()
	logger := slog.New(slog.DiscardHandler)
	config, err := app.Settings{Data: data, Database: database, Rates: "none"}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.Open(t.Context(), config, gate.Client, logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	handler, err := a.Handler(config, func(*http.Request, string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	store, err := config.OpenDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := portal.Accounts(store, gate.Client, logger).Add(t.Context(), "ada@example.com", password, "starter"); err != nil {
		t.Fatal(err)
	}
	s := &site{t, httptest.NewServer(handler), data}
	t.Cleanup(s.server.Close)
	return s
}

// ask returns status, headers and text of an answer. An answer that does not
// come fails the test: the time is only a guard.
func (s *site) ask(method, path, mediaType, body, cookie string) (int, http.Header, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.server.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", mediaType)
	request.Header.Set("Cookie", cookie)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		s.t.Errorf("%s: %v", path, err)
		return 0, nil, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Error(err)
	}
	return response.StatusCode, response.Header, string(text)
}

// login wants a status of POST /api/login.
func (s *site) login(want int, code string) {
	s.t.Helper()
	status, header, text := s.ask("POST", "/api/login", "application/json", `{"email":"ada@example.com","password":"`+password+`"}`, "")
	if status != want || !strings.Contains(text, code) || want == 503 && header.Get("Retry-After") == "" {
		s.t.Errorf("login: got %d %s, want %d %s", status, text, want, code)
	}
}

// signIn wants a status of the page, and returns its cookie.
func (s *site) signIn(want int) string {
	s.t.Helper()
	form := url.Values{"email": {"ada@example.com"}, "password": {password}}
	status, header, text := s.ask("POST", "/login", "application/x-www-form-urlencoded", form.Encode(), "")
	if status != want || want == 503 && !strings.Contains(text, "Accounts are unavailable at the moment") {
		s.t.Errorf("sign-in: got %d %s, want %d", status, text, want)
	}
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	return cookie
}

// get wants a status of a page.
func (s *site) get(path, cookie string, want int) {
	s.t.Helper()
	if status, _, text := s.ask("GET", path, "", "", cookie); status != want {
		s.t.Errorf("%s: got %d %s, want %d", path, status, text, want)
	}
}

// TestStoppedDatabase: while PostgreSQL is stopped, each request is refused
// within its deadline, also when more requests than connections wait. When it
// goes on, all works.
func TestStoppedDatabase(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	s := serve(t, server.URL(t))
	s.login(200, `"token"`)
	cookie := s.signIn(303)
	server.Stop(t)
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() { s.login(503, `"code":"unavailable"`) })
	}
	waiting.Go(func() { s.signIn(503) })
	waiting.Go(func() { s.get("/usage", cookie, 503) })
	waiting.Go(func() { s.get("/healthz", "", 503) })
	waiting.Wait()
	s.login(503, `"code":"unavailable"`) // by a new connection
	server.Continue(t)
	for range 10 {
		s.login(200, `"token"`)
	}
	s.get("/usage", cookie, 200)
	s.get("/healthz", "", 200)
}

// TestBusyFile: while another program locks the file of SQLite, what writes is
// refused within its deadline, and what reads works.
func TestBusyFile(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	cookie := s.signIn(303)
	db, err := sql.Open("sqlite", filepath.Join(s.data, "upstream", "accounts.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	s.signIn(503)
	s.login(200, `"token"`)
	s.get("/usage", cookie, 200)
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	s.signIn(303)
}
