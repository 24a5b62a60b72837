package caddymodule_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/map"
)

// rewrites are directives in front of the gate that take a path below the guard
// /api/ out of it, and where /api/internal/x goes.
var rewrites = map[string]string{
	"try_files to a front controller": "root ROOT\ntry_files {path} /index.php",
	"try_files to a page":             "root ROOT\ntry_files {path} /index.html",
	"uri strip_prefix":                "uri strip_prefix /api",
	"uri replace":                     "uri replace /api/ /v2/",
	"rewrite":                         "rewrite * /index.php?{query}",
	"map and rewrite":                 "map {path} {target} {\n~^/api/(.*)$ /v2/$1\ndefault {path}\n}\nrewrite * {target}",
}

// Threat: a handler in front of the gate rewrites a closed path to an open one,
// and the service reads the path that the client wrote, as PHP's front
// controllers do. Request: closed paths and logins without a token. Expectation:
// 404, the service sees nothing, a login is not open to guesses, and the log
// names both paths.
func TestRewriteOutOfTheGuard(t *testing.T) {
	for name, directives := range rewrites {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, name := range []string{"index.php", "index.html"} {
				if err := os.WriteFile(filepath.Join(root, name), []byte(name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, log := logged(t, "WARN", setup{zone: calmZone(), before: strings.ReplaceAll(directives, "ROOT", root), upstream: code(200)})
			id, bearer := s.account(t, "business")
			for _, request := range []string{
				"GET /api/internal/x", "GET /api/rates/EUR/x", "POST /api/login", "GET /%61pi/internal/x", "GET /API/internal/x",
				"GET http://gate.test/api/internal/x", "GET /%2Fapi/internal/x", "GET /open%2F..%2Fapi/x", "GET /x%2F/api/y", "GET /%2e%2Fapi/x",
				"GET /x%5C..%5Capi/y", "POST /%2Flogin", "POST /x%2F..%2Flogin", "HEAD /api/internal/x", "GET /api",
			} {
				answer := s.raw(t, request+" HTTP/1.1\r\nHost: gate.test\r\nConnection: close\r\nAuthorization: Bearer "+bearer+"\r\n\r\n")
				want := "404"
				if strings.Contains(request, "%2F") || strings.Contains(request, "%5C") {
					want = "400"
				}
				if name == "uri strip_prefix" && request == "POST /api/login" {
					want = "415" // of the login /login
				}
				if got := statusOf(answer); got != want {
					t.Errorf("%s: got %s, want %s", request, got, want)
				}
			}
			if n := s.upstream.seen(); n != 0 {
				t.Errorf("the service saw %d requests", n)
			}
			if n := s.used(t, id, "rates"); n != 0 {
				t.Errorf("counted %d calls", n)
			}
			if text := log(); strings.Count(text, "rewritten in front of the gate") != 1 || !strings.Contains(text, `"written":"/api/internal/x","rewritten":"/`) {
				t.Errorf("want one line with both paths, the log has %s", text)
			}
			if got := s.ask(t, "GET", "/page", ""); got.status != 200 {
				t.Errorf("an open path: got %d", got.status)
			}
		})
	}
}

// Threat: a login outside of the guard is rewritten to an open path, and its
// limits do not apply. Expectation: 404.
func TestRewriteOfALogin(t *testing.T) {
	s := start(t, setup{zone: calmZone(), before: "rewrite * /index.php", upstream: code(401)})
	for _, target := range []string{"/login", "/LOGIN", "/login/", "/lo%67in"} {
		got := s.ask(t, "POST", target, "email=ada@example.com&password=x", "Content-Type: application/x-www-form-urlencoded")
		if got.status != http.StatusNotFound || s.upstream.seen() != 0 {
			t.Errorf("%s: got %d, the service saw %d requests", target, got.status, s.upstream.seen())
		}
	}
	if got := s.ask(t, "GET", "/login", ""); got.status != 401 {
		t.Errorf("the page of the form: got %d, want the answer of the service", got.status)
	}
}

// TestRewriteToAnEndpoint: a closed path that becomes a login, an endpoint or
// the usage is served as that.
func TestRewriteToAnEndpoint(t *testing.T) {
	s := start(t, setup{zone: calmZone(), before: "uri path_regexp ^/api/v2/ /api/\nrewrite /api/old /api/rates/EUR", upstream: code(200)})
	id, bearer := s.account(t, "business")
	for _, target := range []string{"/api/v2/rates/EUR", "/api/old", "/api/v2/usage"} {
		if got := s.get(t, target, bearer); got.status != 200 {
			t.Errorf("%s: got %d %s", target, got.status, got.body)
		}
	}
	if n := s.used(t, id, "rates"); n != 2 {
		t.Errorf("counted %d calls, want 2", n)
	}
	if got := s.ask(t, "POST", "/api/v2/login", `{"email":"ada@example.com","password":"x"}`, "Content-Type: application/json"); got.status != 200 {
		t.Errorf("login: got %d %s", got.status, got.body)
	}
}

// TestRewriteOfNames: a name with an encoded slash passes a rewrite in front of
// the gate byte for byte, if the rewritten path is below a pattern that ends with
// {name...}, and only there.
func TestRewriteOfNames(t *testing.T) {
	s := start(t, setup{
		zone: calmZone(), before: "uri strip_prefix /v0\nuri replace /old/ /api/names/\nrewrite /api/gone/* /page", upstream: code(200),
		gate: "guard /api/\nendpoint names GET /api/names/{path...}\nendpoint rates GET /api/rates/{base}\nplan free\nplan all {\nnames 1000\nrates 1000\n}",
	})
	id, bearer := s.account(t, "all", "names", "rates")
	for target, want := range map[string]string{
		"/v0/api/names/@types%2fnode;a": "/api/names/@types%2fnode;a", "/old/@types%2fnode": "/api/names/@types%2fnode", "/v0/api/names/a%5Cb%3F%25": "/api/names/a%5Cb%3F%25",
		"/v0/api/rates/a%2Fb": "", "/api/gone/a%2Fb": "", "/v0/api/names/a%2F..%2Fb": "", "/api/names/..%2Fold/a": "", "/v0/api/names%2Fa": "", "/old/a%252F..%252Fb": "",
	} {
		before := s.upstream.seen()
		answer := s.raw(t, "GET "+target+" HTTP/1.1\r\nHost: gate.test\r\nConnection: close\r\nAuthorization: Bearer "+bearer+"\r\n\r\n")
		if want == "" {
			if got := statusOf(answer); got != "400" || s.upstream.seen() != before {
				t.Errorf("%s: got %s, the service saw %d requests", target, got, s.upstream.seen()-before)
			}
			continue
		}
		if got := statusOf(answer); got != "200" {
			t.Errorf("%s: got %s", target, answer)
			continue
		}
		if r, _ := s.upstream.last(t); r.RequestURI != want {
			t.Errorf("%s: the service saw %s, want %s", target, r.RequestURI, want)
		}
	}
	if names, rates := s.used(t, id, "names"), s.used(t, id, "rates"); names != 3 || rates != 0 {
		t.Errorf("counted %d names and %d rates, want 3 and 0", names, rates)
	}
}

// TestShadowOfARewrite: shadow reports a rewritten path and lets it pass, but
// not a login.
func TestShadowOfARewrite(t *testing.T) {
	s := start(t, setup{zone: calmZone(), more: "mode shadow", before: "rewrite * /index.php", upstream: code(200)})
	if got := s.ask(t, "GET", "/api/internal/x", ""); got.status != 200 {
		t.Errorf("a closed path: got %d", got.status)
	}
	for _, target := range []string{"/login", "/api/login"} {
		if got := s.ask(t, "POST", target, ""); got.status != 404 {
			t.Errorf("%s: got %d, want 404", target, got.status)
		}
	}
}

// TestEncodedSlashOutsideTheGuard: a name with an encoded slash or backslash
// passes byte for byte where nothing is decided by it. Below a guard, and where
// a server could read it as a login, it does not pass.
func TestEncodedSlashOutsideTheGuard(t *testing.T) {
	s := start(t, setup{zone: calmZone(), gate: "guard /api/\nlogin POST /sign/in\nlogin POST /sign/in/{way}\nplan free", upstream: code(200)})
	for target, want := range map[string]string{
		"/packages/@scope%2Fname": "200", "/packages/@scope%2fname/-/x%5Cy": "200", "/a%252Fb": "200", "/sign%2Fout": "200",
		"/sign%2Fin": "400", "/sign%2fin": "400", "/sign%5Cin": "404", "/sign/in/a%2Fb": "404", "/sign/in%2Fa": "400", "/SIGN%2FIN": "404", "/sign%252Fin": "404",
		"/api%2Fx": "400", "/api%5Cx": "400", "/API%2Fx": "400", "/x%2F..%2Fapi": "400", "/x%2F%2Fy": "400", "/x%2F.%2Fy": "400", "/x%5C..%5Capi": "400",
		"/api/a%2Fb": "400", "/%2Fapi/x": "400", "/%2F": "400", "/x/%2F/y": "400", "/%252e%252e%2Fapi": "400", `/x\y`: "400",
	} {
		before := s.upstream.seen()
		answer := s.raw(t, "POST "+target+" HTTP/1.1\r\nHost: gate.test\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		if got := statusOf(answer); got != want {
			t.Errorf("%s: got %s, want %s", target, got, want)
			continue
		}
		if want != "200" {
			if s.upstream.seen() != before {
				t.Errorf("%s: the service saw it", target)
			}
			continue
		}
		if r, _ := s.upstream.last(t); r.RequestURI != target {
			t.Errorf("%s: the service saw %s", target, r.RequestURI)
		}
	}
}

// statusOf returns the status of a raw answer.
func statusOf(answer string) string {
	_, rest, _ := strings.Cut(answer, " ")
	text, _, _ := strings.Cut(rest, " ")
	return text
}
