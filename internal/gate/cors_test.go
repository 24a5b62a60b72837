package gate_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

const (
	page      = "https://app.example.com"
	origin    = "Origin: " + page
	preflight = "Access-Control-Request-Method: GET"
	exposed   = "RateLimit, RateLimit-Policy, Retry-After, X-Should-Retry, WWW-Authenticate, ETag, Link"
)

// newCORSWorld is a world whose answers pages of these origins may read. A
// login is outside of the guard, and one endpoint has the method OPTIONS.
func newCORSWorld(t testing.TB, mode policy.Mode, origins ...string) *world {
	t.Helper()
	w := newWorld(t, func(c *policy.Config) {
		c.Mode, c.CORS, c.TokenHeader = mode, &policy.CORSConfig{Origins: origins}, "X-Api-Key"
		c.Logins = append(c.Logins, "POST /login")
		c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "own", Patterns: []string{"OPTIONS /api/own"}}, policy.EndpointConfig{Name: "names", Patterns: []string{"GET /api/names/{path...}"}})
		c.Plans[0].Limits["own"] = new(policy.Limit(5))
	})
	w.next = func(rw http.ResponseWriter, _ *http.Request) error {
		rw.Header().Set("Access-Control-Allow-Origin", "https://the.service")
		rw.Header()["access-control-allow-credentials"] = []string{"true"} // as clients read it, whatever its case
		rw.Header().Set("Access-Control-Max-Age", "1")
		rw.WriteHeader(http.StatusOK)
		return nil
	}
	return w
}

// corsOf returns the headers of an answer that CORS is about, as "Name: value".
func corsOf(h http.Header) []string {
	var lines []string
	for name, values := range h {
		if rest, ok := strings.CutPrefix(http.CanonicalHeaderKey(name), "Access-Control-"); ok {
			lines = append(lines, rest+": "+strings.Join(values, "|"))
		}
	}
	slices.Sort(lines)
	return lines
}

func varies(h http.Header, name string) bool {
	return slices.Contains(strings.Split(strings.Join(h.Values("Vary"), ", "), ", "), name)
}

// TestPreflight: a preflight to a route below a guard is answered without a
// token. It is no call, and is not in the list of refused calls.
func TestPreflight(t *testing.T) {
	t.Parallel()
	w := newCORSWorld(t, policy.Enforce, page, "http://localhost:5173")
	get := []string{"Allow-Headers: Authorization, Content-Type, If-None-Match, X-Api-Key", "Allow-Methods: GET, HEAD", "Allow-Origin: " + page, "Expose-Headers: " + exposed, "Max-Age: 600"}
	for name, c := range map[string]struct {
		method, target string
		headers        []string
		status         int
		has            []string
		counted        bool // as a preflight
	}{
		"endpoint":                   {target: convert, headers: []string{origin, preflight}, status: 204, has: get, counted: true},
		"method that the path lacks": {target: convert, headers: []string{origin, "Access-Control-Request-Method: DELETE"}, status: 204, has: get, counted: true},
		"usage":                      {target: "/api/usage", headers: []string{origin, preflight}, status: 204, has: get, counted: true},
		"login": {target: "/api/login", headers: []string{origin, "Access-Control-Request-Method: POST"}, status: 204, counted: true,
			has: []string{get[0], "Allow-Methods: POST", get[2], get[3], get[4]}},
		"endpoint with OPTIONS": {target: "/api/own", headers: []string{origin, preflight}, status: 204, counted: true,
			has: []string{get[0], "Allow-Methods: OPTIONS", get[2], get[3], get[4]}},
		"of another origin":      {target: convert, headers: []string{"Origin: https://evil.example", preflight}, status: 204, counted: true},
		"of two origins":         {target: convert, headers: []string{origin, origin, preflight}, status: 204, counted: true},
		"unknown path":           {target: "/api/nothing", headers: []string{origin, preflight}, status: 404, has: get[2:4]},
		"path with two readings": {target: "/api//convert", headers: []string{origin, preflight}, status: 400, has: get[2:4]},
		"encoded slash":          {target: "/api%2Fusage", headers: []string{origin, preflight}, status: 400, has: get[2:4]},
		"name":                   {target: "/api/names/@types%2Fnode", headers: []string{origin, preflight}, status: 204, has: get, counted: true},
		"name with two readings": {target: "/api/names/x%2F..%2Fy", headers: []string{origin, preflight}, status: 400, has: get[2:4]},
		"control character":      {target: "/api/names/x%00", headers: []string{origin, preflight}, status: 400, has: get[2:4]},
		"method of a name":       {method: "PUT", target: "/api/names/@types%2Fnode", headers: []string{origin}, status: 405, has: get[2:4]},
		"no method asked for":    {target: convert, headers: []string{origin}, status: 405, has: get[2:4]},
		"no origin":              {target: convert, headers: []string{preflight}, status: 405},
		"another method":         {method: "PUT", target: convert, headers: []string{origin, preflight}, status: 405, has: get[2:4]},
		"OPTIONS is the call":    {target: "/api/own", headers: []string{origin}, status: 401, has: get[2:4]},
	} {
		t.Run(name, func(t *testing.T) {
			w.outcomes, w.refused, w.decisions = map[string]int{}, nil, 0
			method := c.method
			if method == "" {
				method = http.MethodOptions
			}
			answer, err := w.ask(method, c.target, "", c.headers...)
			if err != nil || answer.Code != c.status {
				t.Fatalf("got %d %s (%v), want %d", answer.Code, answer.Body, err, c.status)
			}
			if got := corsOf(answer.Header()); !slices.Equal(got, c.has) {
				t.Errorf("got %q\nwant %q", got, c.has)
			}
			if h := answer.Header(); !varies(h, "Origin") || varies(h, "Access-Control-Request-Method") != c.counted {
				t.Errorf("got Vary %q", h.Values("Vary"))
			}
			want := 0
			if c.counted {
				want = 1
			}
			if w.outcomes["none preflight"] != want || len(w.outcomes) != 1 || len(w.refused) != 1-want || want == 1 && w.decisions != 0 {
				t.Errorf("counted %v, reported %q", w.outcomes, w.refused)
			}
		})
	}
}

// TestOpenPathsKeepTheirCORS: outside of the guards, the answer is that of the
// service, also at a login.
func TestOpenPathsKeepTheirCORS(t *testing.T) {
	t.Parallel()
	w := newCORSWorld(t, policy.Enforce, "*")
	for _, c := range []struct{ method, target string }{
		{"OPTIONS", "/open"}, {"GET", "/open"}, {"OPTIONS", "/login"}, {"POST", "/login"},
	} {
		answer, err := w.ask(c.method, c.target, `{"email":"ada@example.com"}`, origin, "Access-Control-Request-Method: POST", "Content-Type: application/json")
		if err != nil || answer.Code != http.StatusOK || answer.Header().Get("Access-Control-Allow-Origin") != "https://the.service" || varies(answer.Header(), "Origin") {
			t.Errorf("%s %s: got %d %v (%v)", c.method, c.target, answer.Code, answer.Header(), err)
		}
	}
	for _, target := range []string{"/x/../open", "/login/"} {
		answer, err := w.ask("POST", target, "", origin)
		if err != nil || answer.Code < 400 || len(corsOf(answer.Header())) > 0 {
			t.Errorf("%s: got %d %v (%v)", target, answer.Code, answer.Header(), err)
		}
	}
}

// TestSharedAnswers: every answer below a guard to an allowed origin may be
// read by its pages. For others, nothing that the service says allows it.
func TestSharedAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, target, body string
		headers              []string // BEARER is a valid token
		status               int
		next                 handlerFunc
		prepare              func(*testing.T, *world)
	}{
		"call":            {target: convert, headers: []string{"Authorization: Bearer BEARER"}, status: 200},
		"usage":           {target: "/api/usage", headers: []string{"Authorization: Bearer BEARER"}, status: 200},
		"login":           {method: "POST", target: "/api/login", body: `{"email":"a@example.com"}`, headers: []string{"Content-Type: application/json"}, status: 200},
		"nothing written": {target: convert, headers: []string{"Authorization: Bearer BEARER"}, status: 200, next: func(http.ResponseWriter, *http.Request) error { return nil }},
		"flushed": {target: convert, headers: []string{"Authorization: Bearer BEARER"}, status: 200, next: func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Access-Control-Allow-Origin", "https://the.service")
			return http.NewResponseController(w).Flush()
		}},
		"changed request": {target: convert, headers: []string{"Authorization: Bearer BEARER"}, status: 200, next: func(w http.ResponseWriter, r *http.Request) error {
			r.Header.Set("Origin", "https://other.example")
			_, err := w.Write([]byte("x"))
			return err
		}},
		"cleared by a proxy": {target: convert, headers: []string{"Authorization: Bearer BEARER"}, status: 502, next: func(w http.ResponseWriter, _ *http.Request) error {
			clear(w.Header()) // as after an interim answer
			return failure(http.StatusBadGateway)
		}},
		"no token":         {target: convert, status: 401},
		"page":             {target: convert, headers: []string{browser}, status: 401},
		"unknown path":     {target: "/api/nothing", status: 404},
		"login body":       {method: "POST", target: "/api/login", body: strings.Repeat(" ", 5000), headers: []string{"Content-Type: application/json"}, status: 413},
		"over the limit":   {target: convert, headers: []string{"Authorization: Bearer BEARER"}, status: 429, prepare: exhaust},
		"ambiguous target": {target: "/api//convert", status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ask := range []struct {
				listed, sent string
				has          []string
			}{
				{page, origin, []string{"Allow-Origin: " + page, "Expose-Headers: " + exposed}},
				{"*", "Origin: null", []string{"Allow-Origin: *", "Expose-Headers: " + exposed}},
				{page, "Origin: https://evil.example", nil},
				{"*", "", nil},
			} {
				w := newCORSWorld(t, policy.Enforce, ask.listed)
				bearer := w.account(t, "acc_1")
				if c.prepare != nil {
					c.prepare(t, w)
				}
				if c.next != nil {
					w.next = c.next
				}
				var headers []string
				for _, line := range append(c.headers[:len(c.headers):len(c.headers)], ask.sent) {
					if line != "" {
						headers = append(headers, strings.Replace(line, "BEARER", bearer, 1))
					}
				}
				answer, err := w.ask(orGet(c.method), c.target, c.body, headers...)
				if err != nil || answer.Code != c.status {
					t.Fatalf("got %d %s (%v), want %d", answer.Code, answer.Body, err, c.status)
				}
				// What the client reads is what was sent at the beginning.
				h := answer.Result().Header
				if got := corsOf(h); !slices.Equal(got, ask.has) {
					t.Errorf("%s, allowed %s: got %q, want %q", ask.sent, ask.listed, got, ask.has)
				}
				if !varies(h, "Origin") || len(h["Vary"]) != len(slices.Compact(slices.Sorted(slices.Values(h["Vary"])))) {
					t.Errorf("%s: got Vary %q", ask.sent, h["Vary"])
				}
			}
		})
	}
}

// TestPassedErrorsAreShared: the headers are there when the server writes the
// answer to an error.
func TestPassedErrorsAreShared(t *testing.T) {
	t.Parallel()
	w := newCORSWorld(t, policy.Enforce, page)
	passErrors(w.gate, true)
	bearer := w.account(t, "acc_1")
	w.next = func(rw http.ResponseWriter, _ *http.Request) error {
		rw.Header().Set("Access-Control-Allow-Origin", "https://the.service")
		return failure(http.StatusTeapot)
	}
	for _, headers := range [][]string{{origin}, {origin, "Authorization: Bearer " + bearer}} {
		answer, err := w.ask("GET", convert, "", headers...)
		var refused *refusal.Refusal
		if err == nil || errors.As(err, &refused) != (len(headers) == 1) {
			t.Errorf("got the error %v", err)
		}
		if h := answer.Header(); h.Get("Access-Control-Allow-Origin") != page || !varies(h, "Origin") {
			t.Errorf("got %v", h)
		}
	}
}

// TestShadowLeavesCORS: in mode shadow, the service decides about CORS, but for
// the gate's own endpoint.
func TestShadowLeavesCORS(t *testing.T) {
	t.Parallel()
	w := newCORSWorld(t, policy.Shadow, page)
	bearer := w.account(t, "acc_1")
	const service, own = "https://the.service", page
	for name, c := range map[string]struct {
		method, target string
		headers        []string
		status         int
		want           string
	}{
		"preflight":                 {"OPTIONS", convert, []string{preflight}, 200, service},
		"preflight to a login":      {"OPTIONS", "/api/login", []string{"Access-Control-Request-Method: POST"}, 200, service},
		"call":                      {"GET", convert, []string{"Authorization: Bearer " + bearer}, 200, service},
		"no token":                  {"GET", convert, nil, 200, service},
		"unknown token":             {"GET", convert, []string{"Authorization: Bearer " + newToken(t).Reveal()}, 401, ""},
		"preflight to usage":        {"OPTIONS", "/api/usage", []string{preflight}, 204, own},
		"another method of usage":   {"OPTIONS", "/api/usage", []string{"Access-Control-Request-Method: DELETE"}, 200, service},
		"usage":                     {"GET", "/api/usage", []string{"Authorization: Bearer " + bearer}, 200, own},
		"usage without a token":     {"GET", "/api/usage", nil, 401, own},
		"usage with another method": {"DELETE", "/api/usage", nil, 200, service},
	} {
		answer, err := w.ask(c.method, c.target, "", append(c.headers, origin)...)
		if err != nil || answer.Code != c.status {
			t.Errorf("%s: got %d %s (%v), want %d", name, answer.Code, answer.Body, err, c.status)
		}
		if h := answer.Header(); h.Get("Access-Control-Allow-Origin") != c.want || varies(h, "Origin") != (c.want == own) {
			t.Errorf("%s: got %v", name, h)
		}
	}
}
