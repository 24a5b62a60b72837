package route_test

import (
	"bufio"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/route"
)

// read parses a request as Go's server does. It is nil for what the
// server itself refuses.
func read(method, target string) *http.Request {
	if strings.ContainsAny(method+target, " \r\n") {
		return nil
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(
		method + " " + target + " HTTP/1.1\r\nHost: example.com\r\n\r\n")))
	if err != nil {
		return nil
	}
	return r
}

// Threat: a path that the gate reads as one resource and the server
// behind it as another, so that the wrong quota is charged or none, and a
// closed resource is served as an open one. Request: every spelling known
// to do that to some server. Expectation: refused on the whole site.
func TestAmbiguousTargetsAreRefused(t *testing.T) {
	t.Parallel()
	attacks := []struct{ name, target string }{
		{"empty segment at the front", "//api/convert"},
		{"empty segment", "/open//api"},
		{"empty segments at the end", "/open//"},
		{"dot segment", "/open/./x"},
		{"dot at the end", "/open/."},
		{"parent segment", "/open/../api/convert"},
		{"parent segment out of the closed", "/api/../open"},
		{"parent at the end", "/open/.."},
		{"encoded dot segment", "/open/%2e/x"},
		{"encoded parent", "/open/%2e%2e/api/convert"},
		{"encoded parent, mixed case", "/open/%2E%2e/api/convert"},
		{"half encoded parent", "/open/.%2e/api"},
		{"parent with a parameter", "/open/..;/api/convert"},
		{"parent with an encoded parameter", "/open/..%3Bx=1/api/convert"},
		{"encoded parent with a parameter", "/open/%2e%2e;a/api"},
		{"dot with a parameter", "/open/.;/x"},
		{"parameter without a name", "/;/api/convert"},
		{"encoded parameter without a name", "/%3bx/api/convert"},
		{"parent before a decoded query", "/open/..%3Fx"},
		{"parent before a decoded fragment", "/open/..%23x"},
		{"encoded slash, small", "/open/..%2fapi"},
		{"encoded slash into the closed", "/api%2Fconvert"},
		{"backslash", `/open\api`},
		{"backslash parent", `/open/..\api`},
		{"encoded backslash, small", "/open/..%5capi"},
		{"NUL", "/open/x%00.html"},
		{"encoded line break", "/open/x%0d%0aHost:%20evil"},
		{"raw control character", "/open/\x01"},
		{"C1 control character", "/open/%C2%85"},
		{"raw C1 control character", "/open/\u0085"},
		{"overlong slash", "/open/..%c0%afapi"},
		{"overlong dots", "/open/%c0%ae%c0%ae/api"},
		{"overlong slash, three bytes", "/open%e0%80%afapi"},
		{"half of a surrogate", "/open/%ed%a0%80"},
		{"beyond Unicode", "/open/%f4%90%80%80"},
		{"lonely continuation", "/open/%80"},
		{"cut off character", "/open/%e2%88"},
		{"cut off by a slash", "/open/%e2%88/x"},
		{"raw invalid byte", "/open/\xff"},
		{"broken escape", "/open/%"},
		{"no hexadecimal", "/open/%zz"},
		{"IIS escape", "/open/%u002e"},
		{"fragment", "/open#x"},
		{"fragment before a parent", "/open#/../api"},
		{"asterisk", "*"},
		{"authority", "example.com:443"},
		{"opaque", "http:api/convert"},
		{"opaque of another scheme", "urn:api:convert"},
		{"another scheme", "ftp://example.com/open"},
		{"file", "file:///etc/passwd"},
		{"no host", "http:///api/convert"},
		{"user name", "http://open@example.com/api"},
		{"backslash in the host", `http://example.com\api/convert`},
		{"absolute with an empty segment", "http://example.com//api"},
		{"absolute with a parent", "http://example.com/open/../api"},
		{"absolute with an encoded slash", "http://example.com/api%2fx"},
		{"query alone", "?x"},
		{"encoded twice, parent", "/open/%252e%252e/api"},
		{"encoded twice, slash and parent", "/open%252f..%252fapi"},
		{"encoded twice, backslash and parent", "/open%255c..%255capi"},
		{"encoded twice behind an invalid byte", "/open/%25ff/%252e%252e/api"},
		{"encoded twice behind a broken escape", "/open/%25/%252e%252e/api"},
		{"encoded twice into the closed", "/%2561pi/convert"},
		{"encoded twice, slash of the closed", "/api%252fconvert"},
		{"encoded four times", "/open/%2525252e%2525252e/api"},
		{"encoded without an end", "/open/%" + strings.Repeat("25", 5000)},
	}
	for _, prefix := range []string{"/", "/api/"} {
		guard := newGuard(t, prefix)
		for _, attack := range attacks {
			t.Run("guard "+prefix+" "+attack.name, func(t *testing.T) {
				t.Parallel()
				u := &url.URL{Path: attack.target}
				if r := read(http.MethodGet, attack.target); r != nil {
					u = r.URL
				}
				if _, err := guard.CheckTarget(http.MethodGet, attack.target, u); !errors.Is(err, route.ErrBadPath) {
					t.Errorf("%.80q: got %v, want %v", attack.target, err, route.ErrBadPath)
				}
			})
		}
	}
}

// Threat: below the guard a character that ends a name for some servers,
// or an escape that some decode again. Request: each of them. Expectation:
// refused below the guard however its case is written, and let through
// elsewhere, where nothing is decided by the name.
func TestSpecialCharactersBelowTheGuard(t *testing.T) {
	t.Parallel()
	guard := newGuard(t, "/api/")
	for _, name := range []string{"x;v=1", "x%3B", "x%3b/y", "x%3Fy", "x%23y", "50%25", "a%2525b", "a%20%3b"} {
		for _, folder := range []string{"/api/", "/API/", "/%61pi/", "/%C4%B1/../api/"} {
			target := folder + name
			if _, err := guard.CheckTarget(http.MethodGet, target, mustParse(t, target)); !errors.Is(err, route.ErrBadPath) {
				t.Errorf("%s: got %v, want %v", target, err, route.ErrBadPath)
			}
		}
		target := "/open/" + name
		if got, err := guard.CheckTarget(http.MethodGet, target, mustParse(t, target)); err != nil || got.Closed {
			t.Errorf("%s: got closed %t, error %v; want it let through", target, got.Closed, err)
		}
	}
	for _, target := range []string{"/api;v=1/convert", "/api;", "/api%3b/convert", "/api%3Fx", "/api%23"} {
		got, err := guard.CheckTarget(http.MethodGet, target, mustParse(t, target))
		if !got.Closed || !errors.Is(err, route.ErrBadPath) {
			t.Errorf("%s: got closed %t, error %v; want %v", target, got.Closed, err, route.ErrBadPath)
		}
	}
}

// Threat: a rewrite before the gate hides what the client wrote, or makes
// a target ambiguous that was not. Request: targets and URLs that differ.
// Expectation: refused if either is ambiguous, and the guard judges what
// the server behind the gate is sent.
func TestRewrittenTargets(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, target string
		u            url.URL
		closed, bad  bool
		written      string
	}{
		{"harmless", "/v1/api/x", url.URL{Path: "/api/x"}, true, false, "/v1/api/x"},
		{"out of the closed", "/api/x", url.URL{Path: "/index.php"}, true, false, "/api/x"},
		{"out of the closed, escaped", "/%61pi/x?y", url.URL{Path: "/index.php"}, true, false, "/api/x"},
		{"out of the closed, other case", "/API/x", url.URL{Path: "/index.php"}, true, false, "/API/x"},
		{"absolute, out of the closed", "http://example.com/api/x", url.URL{Path: "/index.php"}, true, false, "/api/x"},
		{"from the root", "http://example.com", url.URL{Path: "/index.php"}, false, false, "/"},
		{"special out of the closed", "/api/x%3By", url.URL{Path: "/index.php"}, true, true, ""},
		{"slash out of the closed", "/api%2Fx", url.URL{Path: "/index.php"}, true, true, ""},
		{"encoded twice out of the closed", "/%2561pi/x", url.URL{Path: "/index.php"}, false, true, ""},
		{"open to open", "/a%2Fb", url.URL{Path: "/index.php"}, false, false, "/a/b"},
		{"no connection", "", url.URL{Path: "/api/x"}, true, false, ""},
		{"prefix stripped away", "/v1", url.URL{Path: ""}, false, false, "/v1"},
		{"escapes in both", "/v1/api/%45", url.URL{Path: "/api/E", RawPath: "/api/%45"}, true, false, "/v1/api/E"},
		{"resolved parent", "/open/../api/x", url.URL{Path: "/api/x"}, true, true, ""},
		{"parameter cut off", "/api;v/x", url.URL{Path: "/api/x"}, true, true, ""},
		{"decoded slash", "/api%2fx", url.URL{Path: "/api/x"}, true, true, ""},
		{"parent put in", "/open", url.URL{Path: "/open/../api"}, false, true, ""},
		{"empty segment put in", "/open", url.URL{Path: "//open"}, false, true, ""},
		{"decoded twice into a parent", "/open/%252e%252e/x", url.URL{Path: "/open/../x"}, false, true, ""},
		{"parameter put in", "/open", url.URL{Path: "/api/x;v"}, true, true, ""},
		{"encoded slash put in", "/open", url.URL{Path: "/api/a/b", RawPath: "/api/a%2Fb"}, true, true, ""},
		{"stale encoded path", "/open", url.URL{Path: "/api/x", RawPath: "/api/..%2fx"}, true, true, ""},
		{"opaque", "/open", url.URL{Path: "/open", Opaque: "//evil.example/api/x"}, false, true, ""},
		{"relative", "/open", url.URL{Path: "api/x"}, false, true, ""},
		{"asterisk", "/open", url.URL{Path: "*"}, false, true, ""},
	}
	guard := newGuard(t, "/api/")
	for _, tc := range cases {
		got, err := guard.CheckTarget(http.MethodGet, tc.target, &tc.u)
		if got.Closed != tc.closed || errors.Is(err, route.ErrBadPath) != tc.bad {
			t.Errorf("%s: got closed %t, error %v; want closed %t, refused %t", tc.name, got.Closed, err, tc.closed, tc.bad)
		}
		if err == nil && got.Written != tc.written {
			t.Errorf("%s: written: got %q, want %q", tc.name, got.Written, tc.written)
		}
	}
}
