package caddymodule_test

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
)

// observer is a handler in front of the gate. It keeps what it sees of the
// request when the answer begins, and after it, as a cache does.
type observer struct{}

var observed struct {
	mu     sync.Mutex
	during []http.Header
	after  []http.Header
}

func (observer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_observer", New: func() caddy.Module { return new(observer) }}
}

type observing struct {
	*caddyhttp.ResponseWriterWrapper
	request *http.Request
}

func (o observing) WriteHeader(status int) {
	observed.mu.Lock()
	observed.during = append(observed.during, o.request.Header.Clone())
	observed.mu.Unlock()
	o.ResponseWriterWrapper.WriteHeader(status)
}

func (observer) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	err := next.ServeHTTP(observing{&caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, r}, r)
	observed.mu.Lock()
	observed.after = append(observed.after, r.Header.Clone())
	observed.mu.Unlock()
	return err
}

func init() {
	caddy.RegisterModule(observer{})
	httpcaddyfile.RegisterHandlerDirective("test_observer", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return observer{}, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("test_observer", httpcaddyfile.Before, "rewrite")
}

// Threat: a cache in front of the gate stores an answer under the request that
// it sees when the answer comes, and the gate has removed the token from it.
// Expectation: handlers in front of the gate see what the client sent, and
// handlers behind it what the gate made of that.
func TestHandlersInFrontSeeTheTokenThatWasSent(t *testing.T) {
	s := start(t, setup{zone: calmZone(), before: "test_observer", more: "token_header X-Api-Key"})
	id, bearer := s.account(t, "business")
	for _, c := range []struct {
		name, method, target, body string
		header                     []string
	}{
		{"call", "GET", convert, "", []string{"Authorization: Bearer " + bearer, "Cookie: session=1"}},
		{"call with a token header", "GET", convert, "", []string{"X-Api-Key: " + bearer, "Cookie: session=1"}},
		{"usage", "GET", "/api/usage", "", []string{"Authorization: Bearer " + bearer, "Cookie: session=1"}},
		{"login", "POST", "/api/login", `{"email":"ada@example.com","password":"x"}`, []string{"Content-Type: application/json", "Cookie: session=1"}},
		{"open path", "GET", "/page", "", []string{"Authorization: Bearer " + bearer, "Cookie: session=1", "Connection: X-Other", "X-Other: 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			observed.during, observed.after = nil, nil
			before := s.upstream.seen()
			if got := s.ask(t, c.method, c.target, c.body, c.header...); got.status != http.StatusOK {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if len(observed.during) != 1 || len(observed.after) != 1 {
				t.Fatalf("the handler saw %d answers begin and %d end", len(observed.during), len(observed.after))
			}
			for when, header := range map[string]http.Header{"when the answer begins": observed.during[0], "after it": observed.after[0]} {
				for _, line := range c.header {
					name, value, _ := strings.Cut(line, ": ")
					if got := header.Get(name); got != value {
						t.Errorf("%s, %s is %q, want %q", when, name, got, value)
					}
				}
				for name := range maps.Keys(header) {
					if strings.HasPrefix(name, "Tollgate-") {
						t.Errorf("%s, the request has %s", when, name)
					}
				}
			}
			if s.upstream.seen() == before { // usage
				return
			}
			r, _ := s.upstream.last(t)
			metered := c.target == convert
			if metered != (r.Header.Get("Tollgate-Account") == id) || metered && r.Header.Get("Authorization")+r.Header.Get("Cookie")+r.Header.Get("X-Api-Key") != "" {
				t.Errorf("the service saw %v", r.Header)
			}
		})
	}
}

// Threat: an error route passes a refused request on to a service that writes
// error pages, and hands it a live key, a session or a password. Expectation: it
// gets none of them, whatever the refusal, and no identity.
func TestErrorRouteGetsNoSecrets(t *testing.T) {
	pages := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(text)
	})
	const login = "Content-Type: application/json"
	for name, c := range map[string]struct {
		setup
		method, target, body string
		header               []string
	}{
		"expired":             {method: "GET", target: convert, header: []string{"Authorization: Bearer tgk_x"}},
		"no entitlement":      {method: "POST", target: "/api/convert/batch", header: []string{"Authorization: Bearer LIVE"}},
		"token header":        {method: "POST", target: "/api/convert/batch", header: []string{"X-Api-Key: LIVE"}},
		"two tokens":          {method: "GET", target: convert, header: []string{"Authorization: Bearer LIVE", "X-Api-Key: LIVE"}},
		"bad path":            {method: "GET", target: "/api//x", header: []string{"Authorization: Bearer LIVE"}},
		"no route":            {method: "GET", target: "/api/x", header: []string{"Authorization: Bearer LIVE", "X-Api-Key: LIVE"}},
		"method":              {method: "PUT", target: convert, header: []string{"Authorization: Bearer LIVE"}},
		"subprotocol":         {method: "GET", target: "/api/x", header: []string{"Sec-WebSocket-Protocol: tollgate.bearer.LIVE, chat"}},
		"no service":          {setup: setup{behind: "reverse_proxy " + deadAddress}, method: "GET", target: convert, header: []string{"Authorization: Bearer LIVE"}},
		"a handler behind":    {setup: setup{behind: "error 409"}, method: "GET", target: convert, header: []string{"Authorization: Bearer LIVE"}},
		"body of a login":     {method: "POST", target: "/api/login", body: `{"email":"ada@example.com"}x`, header: []string{login}},
		"login that failed":   {setup: setup{behind: "error 401"}, method: "POST", target: "/api/login", body: `{"email":"ada@example.com","password":"hunter2"}`, header: []string{login}},
		"login of no service": {setup: setup{behind: "reverse_proxy " + deadAddress}, method: "POST", target: "/api/login", body: `{"email":"ada@example.com","password":"hunter2"}`, header: []string{login}},
	} {
		t.Run(name, func(t *testing.T) {
			c.zone, c.more = calmZone(), "errors pass\ntoken_header X-Api-Key"
			if c.behind == "" {
				c.behind = "reverse_proxy " + deadAddress
			}
			c.behind += "\nhandle_errors {\nreverse_proxy " + pages.address() + "\n}"
			s := start(t, c.setup)
			_, bearer := s.account(t, "small")
			header := []string{"Cookie: session=1", "Tollgate-Account: acc_9"}
			for _, line := range c.header {
				header = append(header, strings.ReplaceAll(line, "LIVE", bearer))
			}
			before := pages.seen()
			got := s.ask(t, c.method, c.target, c.body, header...)
			if got.status != http.StatusTeapot || pages.seen() != before+1 {
				t.Fatalf("got %d, want the page of the error route", got.status)
			}
			r, body := pages.last(t)
			for name, values := range r.Header {
				if text := strings.Join(values, " "); name == "Cookie" || strings.HasPrefix(name, "Tollgate-") || strings.Contains(text, "tgk_") || strings.Contains(text, bearer) {
					t.Errorf("the error route got %s: %s", name, text)
				}
			}
			if body != "" {
				t.Errorf("the error route got the body %q", body)
			}
		})
	}
}

// Threat: a client sends the gate's headers, and a placeholder behind the gate
// reads the request that all handlers share. Expectation: it is empty. Headers
// that clients may set have what the client sent.
func TestPlaceholderOfAForgedHeader(t *testing.T) {
	s := start(t, setup{zone: calmZone(), behind: "respond `account={http.request.header.Tollgate-Account} url={http.request.header.X-Original-Url} token={http.request.header.Authorization}`"})
	_, bearer := s.account(t, "business")
	for _, target := range []string{convert, "/page"} {
		got := s.ask(t, "GET", target, "", "Authorization: Bearer "+bearer, "Tollgate-Account: acc_9", "X-Original-URL: /api/internal")
		if got.body != "account= url= token=Bearer "+bearer {
			t.Errorf("%s: got %d %s", target, got.status, got.body)
		}
	}
}
