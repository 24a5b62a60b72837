package caddyupstream_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/caddytest"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
)

// Caddy's configuration is one for the process: no test that loads one
// runs in parallel with others.

const (
	secret   = caddytest.Secret
	password = "correct horse battery staple"
	convert  = "/api/convert/EUR/10/USD"
)

// Names of the harness that several tests use.
var adapt, load, validate, freePort = caddytest.Adapt, caddytest.Load, caddytest.Validate, caddytest.FreePort

// setup is a configuration by its parts; empty ones have a default.
type setup struct {
	data    string // data directory of gate and upstream
	port    int    // of the site; 0 takes another one at each load
	address string // of the site in the Caddyfile; http:// with the port
	global  string // options beside tollgate
	gate    string // options in tollgate
	options string // of tollgate_upstream, beside data
	fetch   string // rates; off
	site    string // directives instead of the two handlers
	more    string // further sites
}

// handler is tollgate_upstream with its options.
func (s setup) handler() string {
	fetch := s.fetch
	if fetch == "" {
		fetch = "rates embedded"
	}
	return fmt.Sprintf("tollgate_upstream {\ndata %s\n%s\n%s\n}\n", s.data, fetch, s.options)
}

// text is the Caddyfile.
func (s setup) text() string {
	site, address := s.site, s.address
	if !strings.Contains(s.gate, "timezone") {
		s.gate += "\ntimezone " + stack.CalmZone() // midnight must not come between the calls
	}
	if site == "" {
		site = "tollgate\n" + s.handler()
	}
	if address == "" {
		address = fmt.Sprintf("http://:%d", s.port)
	}
	return fmt.Sprintf(`{
	admin off
	auto_https off
	persist_config off
	grace_period 5s
	%s
	tollgate {
		store badger %s/gate
		secret %s
		guard /api/
		login POST /api/login {
			per_client 1000 1m
		}
		login POST /login
		login POST /signup {
			strict
		}
		usage GET /api/usage
		endpoint currencies GET /api/currencies
		endpoint convert GET /api/convert/{from}/{amount}/{to}
		plan free
		plan starter {
			currencies 1000
			convert 1000
			usage 1000
		}
		%s
	}
}
%s {
	bind 127.0.0.1
	%s
}
%s
`, s.global, s.data, secret, s.gate, address, site, s.more)
}

// running is a Caddy with a setup.
type running struct {
	setup
	client   *caddytest.Client
	accounts int
}

// start runs a setup until the test ends.
func start(t testing.TB, s setup) *running {
	t.Helper()
	if s.data == "" {
		s.data = filepath.Join(t.TempDir(), "data")
	}
	return &running{setup: s, client: caddytest.Start(t, s.text())}
}

// reload loads the setup as it is now.
func (r *running) reload() error { return r.client.Load(r.text()) }

func (r *running) stop(t testing.TB) {
	r.client.CloseIdleConnections()
	caddytest.Stop(t)
}

// answered is a response that was read to its end.
type answered struct {
	status int
	header http.Header
	body   string
}

// code is the stable word of a refusal.
func (a answered) code() string { return caddytest.Code(a.body) }

// ask sends a request; headers are "Name: value".
func (r *running) ask(t testing.TB, method, target, body string, headers ...string) answered {
	t.Helper()
	got := r.client.Ask(t, method, target, body, headers...)
	return answered{got.Status, got.Header, got.Body}
}

func (r *running) get(t testing.TB, target, bearer string) answered {
	t.Helper()
	return r.ask(t, "GET", target, "", "Authorization: Bearer "+bearer)
}

func (r *running) login(t testing.TB, email account.Email) answered {
	t.Helper()
	return r.ask(t, "POST", "/api/login", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password), "Content-Type: application/json")
}

// signUp signs up on the page, and returns the status and, before the name
// of the cookie, its prefix if it is sent over TLS only.
func (r *running) signUp(t testing.TB, email string) string {
	t.Helper()
	form := url.Values{"email": {email}, "password": {password}}.Encode()
	got := r.ask(t, "POST", "/signup", form, "Content-Type: application/x-www-form-urlencoded")
	prefix, _, _ := strings.Cut(got.header.Get("Set-Cookie"), "tollgate=")
	return fmt.Sprintf("%d %s", got.status, prefix)
}

// key makes an account at the gate with a key for all endpoints.
func (r *running) key(t testing.TB) (id, bearer string) {
	t.Helper()
	r.accounts++
	id = fmt.Sprintf("acc_%d", r.accounts)
	return id, caddytest.Account(t, id, "starter", "convert", "currencies", "usage")
}

// used is how many calls to convert were counted today.
func used(t testing.TB, id string) int64 { return caddytest.Used(t, id, "convert") }

// person adds an account with an e-mail, as the command line does: beside
// the handler.
func (r *running) person(t testing.TB, email account.Email) {
	t.Helper()
	store, err := database.OpenFile(t.Context(), filepath.Join(r.data, "upstream"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = portal.Accounts(store, caddymodule.ControlClient(), slog.New(slog.DiscardHandler)).Add(t.Context(), email, password, "starter")
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatalf("adding %s: %v", email, err)
	}
}

// openFiles returns the open files of this process below a directory.
func openFiles(t testing.TB, directory string) (open []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Fatal("listing open files:", err)
	}
	for _, link := range links {
		if file, err := os.Readlink(link); err == nil && strings.HasPrefix(file, directory) {
			open = append(open, file)
		}
	}
	return open
}

// read returns the text of a file.
func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
