package route_test

import (
	"bufio"
	"errors"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/route"
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

// checkTarget checks a target for a table without patterns.
func checkTarget(guard *route.Guard, method, requestURI string, u *url.URL) (route.Target, error) {
	target, err := guard.CheckTarget(method, requestURI, u)
	if err == nil {
		_, _, err = new(route.Table[bool]).Find(method, &target)
	}
	return target, err
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
				if _, err := checkTarget(guard, http.MethodGet, attack.target, u); !errors.Is(err, route.ErrBadPath) {
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
			if _, err := checkTarget(guard, http.MethodGet, target, mustParse(t, target)); !errors.Is(err, route.ErrBadPath) {
				t.Errorf("%s: got %v, want %v", target, err, route.ErrBadPath)
			}
		}
		target := "/open/" + name
		if got, err := checkTarget(guard, http.MethodGet, target, mustParse(t, target)); err != nil || got.Closed {
			t.Errorf("%s: got closed %t, error %v; want it let through", target, got.Closed, err)
		}
	}
	for _, target := range []string{"/api;v=1/convert", "/api;", "/api%3b/convert", "/api%3Fx", "/api%23"} {
		got, err := checkTarget(guard, http.MethodGet, target, mustParse(t, target))
		if !got.Closed || !errors.Is(err, route.ErrBadPath) {
			t.Errorf("%s: got closed %t, error %v; want %v", target, got.Closed, err, route.ErrBadPath)
		}
	}
}

// Threat: a name with special characters below a pattern with {name...} is
// another path, or another pattern, to some server: it decodes the path twice,
// or before it splits it, or not at all; it reads a backslash as a slash, and
// cuts parameters off. Expectation: such a name is refused, and all others pass
// byte for byte.
func TestNamesBelowTheGuard(t *testing.T) {
	t.Parallel()
	const names = "GET /api/npm/{path...}"
	table := newTable(t, names, "GET /api/npm/admin", "PUT /api/npm/{path...}", "POST /api/npm/login", "GET /api/npm/{x}/owners", "GET /api/npm/x/owners/{rest...}",
		"GET /api/flat/{name}", "GET /api/tree/", "GET /api/t/{tenant}/files/{path...}", "GET /api/full/{path...}", "GET /api/full/{$}",
		"GET /open/{path...}", "GET /open/{x}/owners")
	guard := newGuard(t, "/api/")
	for target, want := range map[string]string{
		"@types%2fnode": names, "@types%2Fnode/-/node-1.tgz": names, "a%5Cb": names, "50%25": names, "a%3Bb;c": names, "what%3F": names, "c%23": names,
		"test%2546.txt": names, "%25zz": names, "a%2Fb%2Fc%2F": names, "%3Fx": names, "%23": names, "..a%2Fb..": names, "admin%2Fx": names,
		"a%252Fb": names, "a%25252Fb": names, "caf%C3%A9%2F%F0%9F%92%B6": names, "a%20%25b": names, "administrator;x": names, "x%2Fowner": names,

		"a%2F..%2Fb": "", "a%2F%2E%2E": "", "..%2Fb": "", "%2E%2E%2Fb": "", "a%2F.": "", ".%2Fa": "", "a%2F%2Fb": "", "a%2F/b": "", "%2Fa": "", "/%2F": "", "a%2F/": "",
		"a%5C..%5Cb": "", "..%5Cb": "", "%5Ca": "", "a%5C%5Cb": "", "a%2F%5Cb": "", "a%5C.": "",
		"%252e%252e/b": "", "a%252F..%252Fb": "", "a%252F%252Fb": "", "a%255C..%255Cb": "", "%252Fa": "", "a%2F%252e%252e%2Fb": "", "%25252e%25252e%2Fa": "",
		"..%3Bx/a": "", "..;x/a": "", "a%2F..;x%2Fb": "", ".%3F": "", "..%23/a": "", ";x/a": "", "%3Bx": "", "a%2F%3Bx": "", "a/..%253Bx": "", "..%253Fx": "",
		"admin;x": "", "admin%3Fx": "", "admin%23": "", "admin;x%3Fy": "", "%2561dmin": "", "Admin%252F": "", "ADMIN%2F": "", "admin%253Bx": "", "%2561dmin;x%3F": "",
		"x%2Fowners": "", "x%5Cowners": "", "a%2Fb/owners": "", "a%2Fb/%256fwners": "", "a%252Fb/owners": "", "a;x/owners;y": "", "a%2Fb%5Cc/owners": "", "x%5Cowners%2Fy": "",
		"a%5Cb%2Fowners": "", "x%2Fowners%2Fy": "", "a%00b%2Fc": "", "a%2F%c0%ae%c0%ae": "", "a%2F%": "", `a%2Fb"`: "", "a%2Fé": "", `a%2F\b`: "", "a%2Fb#": "",
		"../flat/a%2Fb": "", "../flat/a%25": "", "../flat/a;b": "", "../tree/a%2Fb": "", "../tree/a;b": "", "../nothing/a%2Fb": "", "..;/npm/a": "",
		"%2e%2e/tree/a": "", "..%2Ftree": "", "../t/a%2Fb/files/x": "", "../t/a%252Fb/files/x": "", "../full/%3F": "", "../full/a%3F": "GET /api/full/{path...}",
		"../t/x/files/a%2Fb": "GET /api/t/{tenant}/files/{path...}", "../t/%78/files/a%2Fb": "GET /api/t/{tenant}/files/{path...}", "../npm;x/a": "", "../npm%3Fa": "", "../npm%2Fa": "", "%" + strings.Repeat("25", 500): "",
		"x%252Fowners;%2Fy": "", "x%2Fowners;%2Fy": "", "x%255Cowners%3B%5Cy": "", "x%252Fowners%3F%2Fy": "", "a%25252Fb;c": names,
		"a%3B%2Fowners;b%2Fc": "", "admin%3B%2Fx": "", "admin%253B%252Fx": "", "../../open/x%2Fowners": "", "../../open/a%2Fb": "GET /open/{path...}",
		"a;b%2Fc%3Fd%23e;f%5Cg%3Fh%23i%255C": names, "a%2Fb%252Fc%25252Fd%5Ce%255Cf;g%25255Ch%253Bi%3Bj%253Fk": "",
		"a%2500": "", "a%250Ab": "", "a%25c0%25ae": "", "a%25u002fb": "", "a%2525U002eb": "", "100%25user": names, "%25u2215": names,
		strings.Repeat("a%2F", 2000): names, strings.Repeat("a%2F", 2100): "",
	} {
		target = strings.NewReplacer("/api/npm/../../", "/", "/npm/../", "/").Replace("/api/npm/" + target)
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			u := &url.URL{Path: target}
			if r := read(method, target); r != nil {
				u = r.URL
			}
			checked, err := guard.CheckTarget(method, target, u)
			got := ""
			if err == nil {
				got, _, err = table.Find(method, &checked)
			}
			if got != want || want == "" && !errors.Is(err, route.ErrBadPath) {
				t.Errorf("%s %s: got %q, %v; want %q", method, target, got, err, want)
			}
			if err == nil && (u.RequestURI() != target || checked.Special != target || table.Allow(&checked) == "") {
				t.Errorf("%s %s: it is sent on as %s, got %+v and the methods %q", method, target, u.RequestURI(), checked, table.Allow(&checked))
			}
		}
	}
}

// Threat: several programs read a path one behind the other, and each one decodes
// it, cuts it or reads backslashes as slashes. Expectation: in any order, they
// find the pattern that was counted.
func TestReadingsOfNamesInAnyOrder(t *testing.T) {
	t.Parallel()
	guard, table := newGuard(t), newTable(t, "GET /n/{path...}", "GET /n/admin", "GET /n/{x}/owners", "GET /n/x/{y}/z")
	pieces := rapid.SampledFrom([]string{
		"x", "x", "admin", "owners", "owners", "z", "%7a", "%256fwners", "/", "/", "%2F", "%252F", "%25252F", "%5C", "%255C", ";", ";v", "%3B", "%253B", "%3F", "%253F", "%23", "%2523", "%25",
	})
	cut := func(text, end string) string {
		if at := strings.IndexAny(text, end); at >= 0 {
			return text[:at]
		}
		return text
	}
	steps := rapid.SampledFrom([]func(string) string{
		unescape, unescape,
		func(text string) string { // a part of a name
			return unescape(regexp.MustCompile(`(?i)%2f|%5c`).ReplaceAllString(text, "∕"))
		},
		func(text string) string { return strings.ReplaceAll(text, `\`, "/") },
		func(text string) string { return cut(text, "?#") },
		func(text string) string {
			segments := strings.Split(text, "/")
			for i, segment := range segments {
				segments[i] = cut(segment, ";")
			}
			return strings.Join(segments, "/")
		},
	})
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			target := "/n/" + strings.Join(rapid.SliceOfN(pieces, 1, 7).Draw(t, "pieces"), "")
			checked, err := guard.CheckTarget(http.MethodGet, target, read(http.MethodGet, target).URL)
			if err != nil {
				continue
			}
			want, _, err := table.Find(http.MethodGet, &checked)
			if err != nil {
				continue
			}
			passed++
			reading := target
			for _, step := range rapid.SliceOfN(steps, 1, 6).Draw(t, "steps") {
				reading = step(reading)
			}
			reading = unescape(reading)
			slash := ""
			if strings.HasSuffix(reading, "/") {
				slash = "/"
			}
			if got, _ := table.Match(http.MethodGet, path.Clean(reading)+slash); got != want {
				t.Fatalf("%s is counted as %q, but as %s it is %q", target, want, reading, got)
			}
		}
	})
	if passed == 0 {
		t.Error("no name passed")
	}
}

// TestMethodOfAName: a method that a name does not have is no ambiguous path.
func TestMethodOfAName(t *testing.T) {
	t.Parallel()
	table := newTable(t, "GET /npm/{path...}", "PUT /npm/{path...}", "DELETE /npm/{name}", "POST /npm/{scope}/{name}")
	for target, want := range map[string]string{"/npm/@a%2Fb": "GET, HEAD, PUT", "/npm/a%23": "GET, HEAD, PUT", "/pub/a%2Fb": ""} {
		checked, err := newGuard(t).CheckTarget(http.MethodPatch, target, mustParse(t, target))
		if err != nil {
			t.Fatal(err)
		}
		_, found, err := table.Find(http.MethodPatch, &checked)
		if got := table.Allow(&checked); got != want || found || errors.Is(err, route.ErrBadPath) != (want == "") {
			t.Errorf("%s: got %q, %t, %v; want %q", target, got, found, err, want)
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
		got, err := checkTarget(guard, http.MethodGet, tc.target, &tc.u)
		if got.Closed != tc.closed || errors.Is(err, route.ErrBadPath) != tc.bad {
			t.Errorf("%s: got closed %t, error %v; want closed %t, refused %t", tc.name, got.Closed, err, tc.closed, tc.bad)
		}
		if err == nil && got.Written != tc.written {
			t.Errorf("%s: written: got %q, want %q", tc.name, got.Written, tc.written)
		}
	}
}
