package caddymodule_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// inFront has what a handler in front of the gate sees of a request: before
// the gate, when the answer begins, and after it.
var inFront struct{ before, begun, after string }

type inFrontHandler struct{}

func (inFrontHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_in_front", New: func() caddy.Module { return new(inFrontHandler) }}
}

func (inFrontHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	look := func() string { return fmt.Sprint(r.Method, r.URL, r.Host, r.Header, r.Trailer, r.ContentLength) }
	inFront.before, inFront.begun = look(), ""
	err := next.ServeHTTP(&begins{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, begin: func() { inFront.begun = look() }}, r)
	inFront.after = look()
	return err
}

// begins calls a function when the answer begins.
type begins struct {
	caddyhttp.ResponseWriterWrapper
	begin func()
}

func (w *begins) WriteHeader(status int) {
	w.begin()
	w.ResponseWriterWrapper.WriteHeader(status)
}

func init() {
	caddy.RegisterModule(inFrontHandler{})
	httpcaddyfile.RegisterHandlerDirective("test_in_front", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return inFrontHandler{}, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("test_in_front", httpcaddyfile.Before, "rewrite")
}

// TestRequestInFront: the gate changes what the handlers behind it see, and not
// what those in front of it see. A cache stores an answer by the request.
func TestRequestInFront(t *testing.T) {
	s := start(t, setup{zone: calmZone(), before: "test_in_front", more: "token_header X-Api-Key"})
	_, bearer := s.account(t, "small")
	const login = `{"email":"ada@example.com","password":"x"}`
	for _, c := range []struct {
		name, method, target, body string
		headers                    []string
		status                     int
	}{
		{"a call", "GET", convert, "", []string{"Authorization: Bearer " + bearer}, 200},
		{"a call with the token header", "GET", convert, "", []string{"X-Api-Key: " + bearer}, 200},
		{"a usage", "GET", "/api/usage", "", []string{"Authorization: Bearer " + bearer}, 200},
		{"a refused call", "GET", convert, "", []string{"Authorization: Bearer no-such-token"}, 401},
		{"an unknown path", "GET", "/api/unknown", "", []string{"Authorization: Bearer " + bearer}, 404},
		{"a login", "POST", "/api/login", login, []string{asJSON}, 200},
		{"an open path", "GET", "/page", "", []string{"Authorization: Bearer " + bearer}, 200},
	} {
		got := s.ask(t, c.method, c.target, c.body, append(c.headers, "Cookie: session=1", "Connection: X-Hop, Upgrade", "Upgrade: h2c")...)
		if got.status != c.status {
			t.Errorf("%s: got %d %s", c.name, got.status, got.body)
		}
		if inFront.begun != inFront.before || inFront.after != inFront.before {
			t.Errorf("%s: a handler in front sees\n%s, when the answer begins\n%s, and then\n%s", c.name, inFront.before, inFront.begun, inFront.after)
		}
	}
}
