package caddyupstream_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/goleak"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/upstream/caddyupstream"
)

// unwritable is a directory that cannot be created, not even by root.
const unwritable = "/proc/tollgate"

// startMistakes are configurations that are refused at the start.
var startMistakes = map[string]struct{ options, want string }{
	"malformed database":     {"database postgres://u:hunter2@127.0.0.1:x/x", "opening database"},
	"database away":          {"database postgres://u:hunter2@127.0.0.1:1/x", "opening PostgreSQL database"},
	"directory is a file":    {"data /dev/null", "/dev/null: not a directory"},
	"directory not writable": {"data " + unwritable, unwritable},
	"invalid option":         {"address ftp://rates.example", "invalid address"},
}

// with returns the setup with an option that replaces the one of its name.
func (s setup) with(option string) setup {
	if strings.HasPrefix(option, "data ") {
		s.site = "tollgate\ntollgate_upstream {\nrates embedded\n" + option + "\n}"
		return s
	}
	s.options = option
	return s
}

// TestStartThatFails refuses the configuration, names the option, and leaves
// nothing open. The error has no password.
func TestStartThatFails(t *testing.T) {
	for name, c := range startMistakes {
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

// TestTwoSites share one App: the accounts of one are those of the other.
func TestTwoSites(t *testing.T) {
	s := setup{data: filepath.Join(t.TempDir(), "data"), port: freePort(t), options: "signup free"}
	s.address = fmt.Sprintf("http://gate.test:%d", s.port)
	s.more = fmt.Sprintf("http://other.test:%d {\nbind 127.0.0.1\ntollgate\n%s}", s.port, strings.Replace(s.handler(), "signup free", "", 1))
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

// TestTwoDirectories are two Apps. Without its site, the second is closed.
func TestTwoDirectories(t *testing.T) {
	s := setup{data: filepath.Join(t.TempDir(), "data"), port: freePort(t)}
	s.address = fmt.Sprintf("http://gate.test:%d", s.port)
	other := strings.ReplaceAll(s.handler(), s.data, s.data+"2")
	s.more = fmt.Sprintf("http://other.test:%d {\nbind 127.0.0.1\ntollgate\n%s}", s.port, other)
	r := start(t, s)
	if n := len(caddyupstream.Apps()); n != 2 {
		t.Errorf("%d Apps are open, want 2", n)
	}
	r.more = ""
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	if open := openFiles(t, s.data+"2"); len(open) != 0 || len(caddyupstream.Apps()) != 1 {
		t.Errorf("open: %v, %v", open, caddyupstream.Apps())
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
