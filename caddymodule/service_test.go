package caddymodule_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// service is a service in the same process: a handler behind the gate.
var service struct {
	open   error                                              // of the store when it was provisioned
	starts []func() error                                     // for AtStart
	answer func(w http.ResponseWriter, r *http.Request) error // of a request
}

type serviceHandler struct{}

func (serviceHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_service", New: func() caddy.Module { return new(serviceHandler) }}
}

func (serviceHandler) Provision(ctx caddy.Context) error {
	gate, err := caddymodule.Configured(ctx)
	if err != nil {
		return err
	}
	_, service.open = gate.Book()
	for _, start := range service.starts {
		gate.AtStart(start)
	}
	return nil
}

func (serviceHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return service.answer(w, r)
}

func init() {
	caddy.RegisterModule(serviceHandler{})
	httpcaddyfile.RegisterHandlerDirective("test_service", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return serviceHandler{}, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("test_service", httpcaddyfile.Before, "respond")
}

// TestPassed: a service learns for what the gate has passed a request, until
// the call is refunded or the login is over.
func TestPassed(t *testing.T) {
	type purposes struct{ call, login bool }
	var before, after purposes
	look := func(r *http.Request) purposes {
		return purposes{caddymodule.Passed(r, assertion.Call), caddymodule.Passed(r, assertion.Login)}
	}
	status := 0
	service.answer = func(w http.ResponseWriter, r *http.Request) error {
		before = look(r)
		w.WriteHeader(status)
		after = look(r)
		return nil
	}
	s := start(t, setup{zone: calmZone(), behind: "test_service", more: "refund server_errors"})
	_, bearer := s.account(t, "small")
	const login = `{"email":"ada@example.com","password":"x"}`
	for _, c := range []struct {
		method, target, body string
		status               int
		before, after        purposes
	}{
		{"GET", convert, "", 200, purposes{call: true}, purposes{call: true}},
		{"GET", convert, "", 404, purposes{call: true}, purposes{call: true}},
		{"GET", convert, "", 502, purposes{call: true}, purposes{}}, // refunded
		{"POST", "/api/login", login, 200, purposes{login: true}, purposes{}},
		{"POST", "/api/login", login, 401, purposes{login: true}, purposes{}},
		{"GET", "/page", "", 200, purposes{}, purposes{}}, // outside of the guards
		{"POST", "/page", login, 200, purposes{}, purposes{}},
	} {
		status, before, after = c.status, purposes{true, true}, purposes{true, true}
		got := s.ask(t, c.method, c.target, c.body, "Authorization: Bearer "+bearer, "Content-Type: application/json", "Tollgate-Assertion: x")
		if got.status != c.status || before != c.before || after != c.after {
			t.Errorf("%s %s with %d: got %d, %+v before the answer, %+v after it", c.method, c.target, c.status, got.status, before, after)
		}
	}
}

// TestAtStart calls the functions in order, once the store is open. If one
// fails, the configuration is refused, and the running one continues. An open
// store is there before the start: a reload refuses no request.
func TestAtStart(t *testing.T) {
	var steps []string
	step := func(name string, err error) func() error {
		return func() error {
			_, open := caddymodule.ControlClient().Plans(t.Context())
			steps = append(steps, fmt.Sprint(name, " ", open))
			return err
		}
	}
	t.Cleanup(func() { service.starts = nil })
	service.starts = []func() error{step("first", nil), step("second", nil)}
	s := start(t, setup{zone: calmZone(), port: freePort(t), behind: "test_service"})
	if want := []string{"first <nil>", "second <nil>"}; !slices.Equal(steps, want) {
		t.Errorf("got %q, want %q", steps, want)
	}
	id, bearer := s.account(t, "small")
	service.answer = func(w http.ResponseWriter, _ *http.Request) error {
		_, err := w.Write([]byte("rates"))
		return err
	}

	if err := s.reload(); err != nil || service.open != nil {
		t.Errorf("got %v, and the store %v before the start", err, service.open)
	}
	steps = nil
	broken := errors.New("the database is away")
	service.starts = []func() error{step("first", nil), step("second", broken), step("third", nil)}
	if err := s.reload(); err == nil || !strings.Contains(err.Error(), broken.Error()) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if len(steps) != 2 {
		t.Errorf("got %q, want two steps", steps)
	}
	if got := s.get(t, convert, bearer); got.status != http.StatusOK || s.used(t, id, "convert") != 1 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// TestControlClient asks the gate in force: after a reload the next one, and
// none when there is none.
func TestControlClient(t *testing.T) {
	gate := caddymodule.ControlClient()
	want := func(what, code string) {
		t.Helper()
		_, err := gate.Account(t.Context(), "acc_1")
		var refused *apierror.Error
		if errors.As(err, &refused) && refused.Code == code || err == nil && code == "" {
			return
		}
		t.Errorf("%s: got %v, want %q", what, err, code)
	}
	stop(t)
	want("before the start", "unavailable")
	s := start(t, setup{zone: calmZone()})
	want("a new store", "not_found")
	if _, err := gate.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("small")}); err != nil {
		t.Fatal(err)
	}
	want("with the account", "")
	first := s.dir
	for _, reload := range []struct{ dir, code string }{{first, ""}, {first + "2", "not_found"}, {first, ""}} {
		s.dir = reload.dir
		if err := s.reload(); err != nil {
			t.Fatal(err)
		}
		want("after a reload", reload.code)
	}
	s.dir = "/dev/null/gate"
	if err := s.reload(); err == nil {
		t.Error("the store is in /dev/null")
	}
	want("after a reload that failed", "")
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	want("after the stop", "unavailable")
}

// TestMarkBesideReader: a proxy that dials in the background reads the
// variables of a request until after its answer. The gate must not write to
// their map then: Go would end Caddy. The race detector finds such a write.
func TestMarkBesideReader(t *testing.T) {
	status := 0
	service.answer = func(w http.ResponseWriter, r *http.Request) error {
		read := make(chan struct{})
		go func() {
			defer close(read)
			caddyhttp.GetVar(r.Context(), "any")
		}()
		w.WriteHeader(status)
		<-read
		return nil
	}
	s := start(t, setup{zone: calmZone(), behind: "test_service", more: "refund server_errors"})
	_, bearer := s.account(t, "small")
	for _, status = range []int{200, 500} {
		if got := s.ask(t, "GET", convert, "", "Authorization: Bearer "+bearer); got.status != status {
			t.Errorf("call: got %d %s, want %d", got.status, got.body, status)
		}
		if got := s.ask(t, "POST", "/api/login", `{"email":"ada@example.com","password":"x"}`, "Content-Type: application/json"); got.status != status {
			t.Errorf("login: got %d %s, want %d", got.status, got.body, status)
		}
	}
}
