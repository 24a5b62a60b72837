package app_test

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest/postgrestest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

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
