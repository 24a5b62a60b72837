package caddymodule_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// currencyMux is an upstream that routes as Go's ServeMux does, with a
// wider net than the gate's, and says which pattern it took.
func currencyMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, pattern := range []string{
		"GET /api/convert/{from}/{amount}/{to}", "GET /api/rates/{base}", "POST /api/convert/batch",
		"POST /api/login", "POST /login", "GET /api/usage", "/api/internal/{rest...}", "/api/", "/",
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Pattern) })
	}
	return mux
}

// Each of these asks for what is metered, or closed, by a path that the
// gate might take for something else than the upstream does. Whatever the
// gate lets through, the upstream must route to the endpoint that was
// counted; and nothing closed may be reached from outside the guard.
func TestPathsMeanTheSame(t *testing.T) {
	s := start(t, setup{zone: calmZone(), upstream: currencyMux().ServeHTTP})
	id, bearer := s.account(t, "business")
	for _, target := range []string{
		"/api/rates/EUR", "/api/rates/%45UR", "/api/rates/EUR%2CUSD", "/api/rates/EUR?base=/api/internal/x", "/%61pi/rates/EUR",
		"/api/%72ates/EUR", "/api/convert/EUR/1%2e5/USD", "/api/convert/EUR/10/USD", "/api/rates/caf%C3%A9",

		"//api/rates/EUR", "/api//rates/EUR", "/api/rates//EUR", "/./api/rates/EUR", "/api/./rates/EUR", "/api/rates/.",
		"/x/../api/rates/EUR", "/api/x/../rates/EUR", "/api/rates/..", "/api/rates/EUR/..", "/..", "/api/..", "/api/../api/internal/x",
		"/api%2Frates/EUR", "/api%2frates/EUR", "/api/rates%2fEUR", "/api/rates/a%2Fb", "/api%5Crates/EUR", "/api%5crates/EUR", "/api\\rates\\EUR",
		"/api/x/%2e%2e/rates/EUR", "/api/rates/%2e%2e%2fconvert", "/api/rates/%2E", "/%2e%2e/api/rates/EUR", "/page/%2e%2e/api/internal/x",
		"/api/rates/EUR;v=1", "/api;v=1/rates/EUR", "/api/rates;x/EUR", "/;/api/rates/EUR", "/api/..;/api/internal/x", "/page/..;/api/internal/x",
		"/api/rates/EUR%3Fx", "/api/rates/EUR%23x", "/api/rates/EUR%3B", "/api/rates/%2545UR", "/%2561pi/internal/x", "/page/%252e%252e/api/internal/x",
		"/api/rates/%00", "/api/rates/EUR%00", "/api/rates/%0d%0aX:1", "/api/rates/%7f", "/api/rates/%c0%ae", "/api/rates/%ff", "/api/rates/%ed%a0%80",
		"/api/rates/%u0045", "/api/rates/%", "/api/rates/%4", "/api/rates/EUR/", "/api/rates/", "/api/rates", "/api/", "/api", "/api/internal/x",
		"/API/rates/EUR", "/Api/internal/x", "/aPi/", "/api/Rates/EUR", "/%41PI/internal/x", "/ap\u0131/internal/x", "/ap%C4%B1/internal/x",
		"http://other.test/api/rates/EUR", "http://gate.test/api/internal/x", "http://gate.test//api/rates/EUR", "http://gate.test", "HTTP://gate.test/api/internal/x",
		"http://gate.test@evil.test/api/rates/EUR", "http:///api/internal/x", "*", "gate.test:80", "gate.test/api/rates/EUR", "x:/api/internal/x", "?/api/internal/x",
		"/page", "/page/../x", "/page//x", "/page%2Fx", "/page/api/internal/x", "/apiary", "/page?x=../api/internal/x", "/page#/api/internal/x",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			t.Run(method+" "+target, func(t *testing.T) {
				before, seen := counts(t, s, id), s.upstream.seen()
				answer := s.raw(t, method+" "+target+" HTTP/1.1\r\nHost: gate.test\r\nConnection: close\r\nAuthorization: Bearer "+bearer+"\r\nContent-Length: 0\r\n\r\n")
				counted := ""
				for endpoint, n := range counts(t, s, id) {
					if n != before[endpoint] {
						counted += endpoint
					}
				}
				checkPath(t, s, method, answer, counted, s.upstream.seen()-seen)
			})
		}
	}
}

// routes are the patterns of the upstream by the endpoint that they are.
var routes = map[string]string{
	"GET /api/convert/{from}/{amount}/{to}": "convert", "GET /api/rates/{base}": "rates",
	"POST /api/convert/batch": "batch", "/": "", "POST /login": "",
}

func checkPath(t *testing.T, s *site, method, answer, counted string, seen int) {
	t.Helper()
	line, _, _ := strings.Cut(answer, "\r\n")
	if len(line) < 12 || strings.HasPrefix(line, "HTTP/1.1 3") || strings.HasPrefix(line, "HTTP/1.1 5") {
		t.Errorf("got %q: no redirects and no failures", line)
	}
	if seen == 0 {
		if counted != "" && counted != "usage" {
			t.Errorf("got %q with a call to %s counted that the upstream has not seen", line, counted)
		}
		return
	}
	r, _ := s.upstream.last(t)
	_, pattern := currencyMux().Handler(r)
	endpoint, known := routes[pattern]
	if !known || endpoint != counted {
		t.Errorf("the upstream routed %s %s to %q, the gate counted %q", r.Method, r.RequestURI, pattern, counted)
	}
	if r.Method != method {
		t.Errorf("the upstream saw the method %s", r.Method)
	}
}

func counts(t *testing.T, s *site, id string) map[string]int64 {
	t.Helper()
	by := map[string]int64{}
	for _, e := range compiled(t).Endpoints {
		by[e.Name] = s.used(t, id, e.Name)
	}
	return by
}

// The path is looked at before anything else: an ambiguous one is 400
// whoever asks, and so learns nothing about tokens or routes.
func TestOrderOfSteps(t *testing.T) {
	s := start(t, setup{zone: calmZone(), upstream: code(404)})
	id, bearer := s.account(t, "small")
	_, narrow := s.account(t, "small", "rates")
	_, free := s.account(t, "free")
	for range 5 {
		s.get(t, convert, bearer)
	}
	exhausted := []string{"Authorization: Bearer " + bearer}
	for _, c := range []struct {
		name, method, target string
		headers              []string
		status               int
	}{
		{"path before token", "GET", "/api//convert", nil, 400},
		{"path before method", "DELETE", "/api//convert", nil, 400},
		{"CONNECT before path", "TRACE", "/api//convert", nil, 405},
		{"route before token", "GET", "/api/nothing", nil, 404},
		{"method before token", "DELETE", convert, nil, 405},
		{"query before header", "GET", convert + "?access_token=x", []string{"Authorization: Basic x"}, 400},
		{"token before plan", "GET", convert, []string{"Authorization: Bearer junk"}, 401},
		{"plan before ability", "GET", convert, []string{"Authorization: Bearer " + free}, 403},
		{"ability before quota", "GET", convert, []string{"Authorization: Bearer " + narrow}, 403},
		{"quota before upstream", "GET", convert, exhausted, 429},
		{"upstream last", "GET", "/api/rates/EUR", exhausted, 404},
	} {
		if got := s.ask(t, c.method, c.target, "", c.headers...); got.status != c.status {
			t.Errorf("%s: got %+v, want %d", c.name, got, c.status)
		}
	}
	if n := s.used(t, id, "rates"); n != 1 {
		t.Errorf("counted %d calls to rates, want 1: a 404 of the upstream costs a call", n)
	}
}
