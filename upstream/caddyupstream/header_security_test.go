package caddyupstream_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/caddyupstream"
)

// forged are headers of a client that knows all about another account, and
// even the secret.
func forged(t *testing.T, id string) []string {
	t.Helper()
	key, err := assertion.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := assertion.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"Tollgate-Account: " + id, "Tollgate-Plan: starter", "Tollgate-Key: key_1", "Tollgate-Abilities: convert currencies usage",
		"Tollgate-Assertion: " + signer.Login("gate.test", time.Now()),
		"Content-Type: application/json", "X-Forwarded-For: 127.0.0.1",
	}
}

// requests that only the gate lets through.
var closed = []struct{ method, target, body string }{
	{"GET", convert, ""},
	{"HEAD", convert, ""},
	{"GET", "/api/currencies", ""},
	{"GET", "/api/", ""},
	{"GET", "/api", ""},
	{"POST", "/api/login", `{"email":"ada@example.com","password":"` + password + `"}`},
	{"POST", "/login", "email=ada%40example.com&password=" + strings.ReplaceAll(password, " ", "+")},
}

// refused checks that no request of closed gets an answer of the upstream.
func (r *running) refused(t *testing.T, headers ...string) {
	t.Helper()
	for _, request := range closed {
		got := r.ask(t, request.method, request.target, request.body, headers...)
		if got.status != http.StatusForbidden || request.method != "HEAD" && got.code() != "forbidden" || strings.Contains(got.body, "tgl_") || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s %s: got %d %s", request.method, request.target, got.status, got.body)
		}
	}
}

// Threat: a site has the handler without the gate, by mistake. Logins
// are not limited and calls are not counted. The handler ignores identity
// headers of a client.
func TestWithoutGate(t *testing.T) {
	s := setup{data: filepath.Join(t.TempDir(), "data")}
	s.site = s.handler()
	r := start(t, s)
	r.person(t, "ada@example.com")
	id, bearer := r.key(t)
	r.refused(t)
	r.refused(t, forged(t, id)...)
	r.refused(t, append(forged(t, id), "Authorization: Bearer "+bearer)...)
	if got := r.ask(t, "GET", "/", ""); got.status != http.StatusOK {
		t.Errorf("the front page: got %d", got.status)
	}
	if n := used(t, id); n != 0 {
		t.Errorf("counted %d calls", n)
	}
	r.noLogins(t)
}

// noLogins checks that no account of a person got a login token.
func (r *running) noLogins(t *testing.T) {
	t.Helper()
	page, err := caddymodule.ControlClient().Accounts(t.Context(), api.AccountQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range page.Accounts {
		keys, err := caddymodule.ControlClient().Keys(t.Context(), a.Account, client.KeyFilter{Kind: "login"})
		if err != nil || len(keys) != 0 {
			t.Errorf("%s has login tokens %v, %v", a.Account, keys, err)
		}
	}
}

// Threat: a client sends the gate's headers through the gate, with a key of
// its own or without one.
func TestForgedHeaders(t *testing.T) {
	r := start(t, setup{})
	r.person(t, "ada@example.com")
	victim, _ := r.key(t)
	id, bearer := r.key(t)
	headers := forged(t, victim)
	if got := r.ask(t, "GET", convert, "", headers...); got.status != http.StatusUnauthorized {
		t.Errorf("without a key: got %d %s", got.status, got.body)
	}
	if got := r.ask(t, "GET", convert, "", append(headers, "Authorization: Bearer "+bearer)...); got.status != http.StatusOK || got.header.Get("Tollgate-Account") != "" {
		t.Errorf("with a key: got %d %s", got.status, got.body)
	}
	if mine, theirs := used(t, id), used(t, victim); mine != 1 || theirs != 0 {
		t.Errorf("counted %d for the key's account and %d for the forged one", mine, theirs)
	}
	// The pages know people by their session only.
	for _, page := range []string{"/settings", "/usage"} {
		if got := r.ask(t, "GET", page, "", headers...); got.status != http.StatusSeeOther {
			t.Errorf("%s: got %d", page, got.status)
		}
	}
}

// Threat: a request admitted as a login is used as a call, or the reverse. The
// first is not counted, the second not limited. A rewrite after the gate
// changes the path that the gate has passed.
func TestMarkOfAnotherPurpose(t *testing.T) {
	s := setup{data: filepath.Join(t.TempDir(), "data")}
	s.site = "route {\ntollgate\nrewrite {http.request.header.X-To}\nmethod {http.request.header.X-Verb}\n" + s.handler() + "}\n"
	r := start(t, s)
	r.person(t, "ada@example.com")
	_, bearer := r.key(t)
	credentials := `{"email":"ada@example.com","password":"` + password + `"}`

	login := r.ask(t, "POST", "/api/login", credentials, "Content-Type: application/json", "X-To: "+convert, "X-Verb: GET")
	if login.status != http.StatusForbidden || login.code() != "forbidden" {
		t.Errorf("a login that calls: got %d %s", login.status, login.body)
	}
	call := r.ask(t, "GET", convert, credentials, "Authorization: Bearer "+bearer, "Content-Type: application/json", "X-To: /api/login", "X-Verb: POST")
	if call.status != http.StatusForbidden || call.code() != "forbidden" {
		t.Errorf("a call that logs in: got %d %s", call.status, call.body)
	}
	for _, open := range []string{"/", "/healthz", "/openapi.json"} {
		for target, method := range map[string]string{convert: "GET", "/api/login": "POST"} {
			got := r.ask(t, "GET", open, credentials, "Content-Type: application/json", "X-To: "+target, "X-Verb: "+method)
			if got.status != http.StatusForbidden {
				t.Errorf("%s to %s: got %d %s", open, target, got.status, got.body)
			}
		}
	}
	r.noLogins(t)
	// The same requests without a change of their purpose work.
	if got := r.ask(t, "GET", convert, "", "Authorization: Bearer "+bearer, "X-To: "+convert, "X-Verb: GET"); got.status != http.StatusOK {
		t.Errorf("a call: got %d %s", got.status, got.body)
	}
}

// Threat: another handler sets a variable of the mark's name, to a value of
// any type. Only the gate's own value is a mark.
func TestForeignMark(t *testing.T) {
	values := []any{"x", "login", "call", "", 1, true, struct{}{}, []byte("x"), (*caddyupstream.Upstream)(nil), new(int), nil}
	s := setup{data: filepath.Join(t.TempDir(), "data")}
	s.site = "route {\ntest_mark\n" + s.handler() + "}\n"
	r := start(t, s)
	for _, mark = range values {
		r.refused(t)
	}
	r.site = "route {\ntest_mark\ntollgate\n" + s.handler() + "}\n"
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	id, bearer := r.key(t)
	for i, value := range values {
		mark = value
		if got := r.ask(t, "GET", convert, ""); got.status != http.StatusUnauthorized {
			t.Errorf("%v: without a key: got %d %s", value, got.status, got.body)
		}
		if got := r.get(t, convert, bearer); got.status != http.StatusOK || used(t, id) != int64(i+1) {
			t.Errorf("%v: got %d %s", value, got.status, got.body)
		}
	}
}

// mark is the value that markHandler sets.
var mark any

// markHandler sets the variable of the mark.
type markHandler struct{}

func (markHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_mark", New: func() caddy.Module { return new(markHandler) }}
}

func (markHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	caddyhttp.SetVar(r.Context(), "tollgate.call", mark)
	return next.ServeHTTP(w, r)
}

func init() {
	caddy.RegisterModule(markHandler{})
	httpcaddyfile.RegisterHandlerDirective("test_mark", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return markHandler{}, nil
	})
}

// Threat: an error route, or a handler that sees the refusal, answers with the
// upstream. The refused request has not passed.
func TestUpstreamAfterRefusal(t *testing.T) {
	base := setup{data: filepath.Join(t.TempDir(), "data")}
	for name, c := range map[string]struct{ gate, site string }{
		"errors pass": {"errors pass", "route {\ntollgate\n" + base.handler() + "}\nhandle_errors {\n" + base.handler() + "}\n"},
		"intercept": {"", "route {\nintercept {\n@bad status 4xx 5xx\nhandle_response @bad {\n" + base.handler() + "}\n}\ntollgate\n" +
			base.handler() + "}\n"},
		"call that failed": {"errors pass", "route {\ntollgate\nerror 502\n}\nhandle_errors {\n" + base.handler() + "}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := base
			s.data = filepath.Join(t.TempDir(), "data")
			c.site = strings.ReplaceAll(c.site, base.data, s.data)
			s.gate, s.site = c.gate, c.site
			r := start(t, s)
			defer r.stop(t)
			id, bearer := r.key(t)
			token := bearer
			if name != "call that failed" {
				token = "junk"
			}
			got := r.get(t, convert, token)
			if got.status < 400 || strings.Contains(got.body, "rounded") || used(t, id) != 0 {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
}
