package route_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/route"
)

// api are the patterns of a currency API, as an operator would declare
// them.
var api = [...]string{
	"POST /api/login",
	"GET /api/usage",
	"GET /api/currencies",
	"GET /api/convert/{from}/{amount}/{to}",
	"GET /api/rates/{base}",
	"GET /api/history/{from}/{to}",
	"POST /api/convert/batch",
}

// newTable returns a table whose values are the patterns themselves.
func newTable(t testing.TB, patterns ...string) *route.Table[string] {
	t.Helper()
	table := &route.Table[string]{}
	for _, pattern := range patterns {
		method, path, _ := strings.Cut(pattern, " ")
		if err := table.Add(method, path, pattern); err != nil {
			t.Fatalf("Add(%q): %v", pattern, err)
		}
	}
	return table
}

func TestTableMatch(t *testing.T) {
	t.Parallel()
	table := newTable(t, append(api[:],
		"GET /a/b/z", "GET /a/{x}/c", "GET /a/{rest...}",
		"GET /tree/", "GET /{rest...}", "GET /exact/{$}",
		"GET /caf%C3%A9", "HEAD /own", "GET /own",
	)...)
	cases := []struct{ method, path, want string }{
		{"GET", "/api/convert/EUR/10/USD", "GET /api/convert/{from}/{amount}/{to}"},
		{"HEAD", "/api/convert/EUR/10/USD", "GET /api/convert/{from}/{amount}/{to}"},
		{"POST", "/api/convert/batch", "POST /api/convert/batch"},
		{"POST", "/api/convert/EUR/10/USD", ""},
		{"GET", "/api/rates/EUR/", "GET /{rest...}"},
		{"GET", "/a/b/z", "GET /a/b/z"},
		{"GET", "/a/b/c", "GET /a/{x}/c"},
		{"GET", "/a/b/d", "GET /a/{rest...}"},
		{"GET", "/a/", "GET /a/{rest...}"},
		{"GET", "/a", ""}, // a redirect to /a/
		{"GET", "/tree/x/", "GET /tree/"},
		{"GET", "/tree", ""}, // a redirect to /tree/
		{"GET", "/exact/", "GET /exact/{$}"},
		{"GET", "/exact", ""}, // a redirect to /exact/
		{"GET", "/exact/x", "GET /{rest...}"},
		{"GET", "/café", "GET /caf%C3%A9"},
		{"GET", "/", "GET /{rest...}"},
		{"GET", "", "GET /{rest...}"},
		{"GET", "relative", ""},
		{"GET", "//", ""},
		{"GET", "/x//y", ""},
		{"GET", "/x/../y", ""},
		{"HEAD", "/own", "HEAD /own"},
		{"get", "/api/usage", ""},
		{"DELETE", "/", ""},
		{"", "/", ""},
	}
	for _, tc := range cases {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			t.Parallel()
			got, ok := table.Match(tc.method, tc.path)
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("got %q, %t; want %q", got, ok, tc.want)
			}
		})
	}
}

// What nearly all requests are is found at the first look; whatever could
// be read in two ways is left to the others.
func TestTableMatchWritten(t *testing.T) {
	t.Parallel()
	table := newTable(t, append(api[:], "GET /a/b/z", "GET /a/{x}/c", "GET /a/{rest...}", "GET /tree/", "GET /exact/{$}")...)
	const convert = "GET /api/convert/{from}/{amount}/{to}"
	cases := []struct{ method, target, path, want string }{
		{"GET", "/api/convert/EUR/10.5/USD", "", convert},
		{"GET", "/api/convert/EUR/10/USD?date=2026-11-20", "", convert},
		{"GET", "/api/usage?", "", "GET /api/usage"},
		{"POST", "/api/convert/batch", "", "POST /api/convert/batch"},
		{"GET", "/a/x/c", "", "GET /a/{x}/c"},
		{"GET", "/a/b/z", "", "GET /a/b/z"},
		{"GET", "/a/b/c", "", ""}, // the literal leads nowhere
		{"GET", "/a/x/d", "", ""},
		{"GET", "/tree/", "", ""},
		{"GET", "/exact/", "", ""},
		{"HEAD", "/api/usage", "", ""},
		{"GET", "/api/login", "", ""},
		{"GET", "/api/usage/", "", ""},
		{"GET", "/api/usage/x", "", ""},
		{"GET", "/api/convert//10/USD", "", ""},
		{"GET", "/api/convert/../10/USD", "", ""},
		{"GET", "/api/convert/.hidden/10/USD", "", ""},
		{"GET", "/api/convert/EUR;x/10/USD", "", ""},
		{"GET", "/api/convert/E%55R/10/USD", "", ""},
		{"GET", "/api/convert/E%2FR/10/USD", "", ""},
		{"GET", "/api/convert/€/10/USD", "", ""},
		{"GET", "http://example.com/api/usage", "", ""},
		{"GET", "/api/../api/usage", "/api/usage", ""}, // rewritten
		{"GET", "", "/api/usage", ""},
		{"GET", "/api/convert/\xff/10/USD", "/api/convert/\xff/10/USD", ""},
		{"GET", "/api/usagex", "/api/usage", ""},
		{"GET", "Xapi/usage", "Xapi/usage", ""},
		{"GET", "/", "", ""},
		{"GET", "", "", ""},
	}
	for _, tc := range cases {
		t.Run(tc.method+" "+tc.target+" "+tc.path, func(t *testing.T) {
			t.Parallel()
			u := &url.URL{Path: tc.path} // as a rewrite leaves it
			if tc.path == "" && tc.target != "" {
				u = mustParse(t, tc.target)
			}
			if got, ok := table.MatchWritten(tc.method, tc.target, u); got != tc.want || ok != (tc.want != "") {
				t.Errorf("got %q, %t; want %q", got, ok, tc.want)
			}
		})
	}
}

// Many literals beside each other are searched in another way than few.
func TestTableManyLiterals(t *testing.T) {
	t.Parallel()
	table := newTable(t, "GET /api/{x}", "GET /api/k/below")
	for _, c := range "abcdefghijlmnop" {
		if err := table.Add("GET", "/api/"+string(c), string(c)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/api/a": "a", "/api/h": "h", "/api/p": "p", "/api/k/below": "GET /api/k/below", "/api/q": "GET /api/{x}", "/api/aa": "GET /api/{x}",
		"/api/a/b": "", "/api/k": "GET /api/{x}",
	} {
		if got, ok := table.Match("GET", path); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
		if got, ok := table.MatchWritten("GET", path, &url.URL{Path: path}); ok && got != want {
			t.Errorf("%s: found %q, want %q", path, got, want)
		}
	}
}

// Threat: a rewrite leaves a path that looks like the target, but is sent
// on in another spelling.
// Expectation: the first look does not find it.
func TestTableMatchWrittenElsewhere(t *testing.T) {
	t.Parallel()
	table := newTable(t, api[:]...)
	for _, u := range []url.URL{
		{Path: "/api/usage", RawPath: "/api%2Fusage"},
		{Path: "/api/usage", Opaque: "//elsewhere"},
	} {
		if got, ok := table.MatchWritten("GET", "/api/usage", &u); ok {
			t.Errorf("%q: got %q", u.RequestURI(), got)
		}
	}
}

func TestTableAllow(t *testing.T) {
	t.Parallel()
	table := newTable(t, append(api[:], "PUT /api/usage", "HEAD /api/usage", "HEAD /head", "GET /tree/", "POST /tree")...)
	cases := map[string]string{
		"/api/usage":              "GET, HEAD, PUT",
		"/api/login":              "POST",
		"/api/convert/batch":      "POST",
		"/api/convert/EUR/10/USD": "GET, HEAD",
		"/api/convert/EUR/10":     "",
		"/api/usage/":             "",
		"/head":                   "HEAD",
		"/tree":                   "POST",
		"/tree/":                  "GET, HEAD",
		"/":                       "",
	}
	for path, want := range cases {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			if got := table.Allow(path); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestTableAddRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, method, path, want string }{
		{"no method", "", "/x", "method is missing"},
		{"small letters", "get", "/x", "capital letters"},
		{"host in the method", "GET example.com", "/x", "capital letters"},
		{"tunnel", "CONNECT", "/x", "method"},
		{"trace", "TRACE", "/x", "method"},
		{"host", "GET", "example.com/x", "host"},
		{"space before", "GET", " /x", "begin with a slash"},
		{"no path", "GET", "", "begin with a slash"},
		{"unclosed wildcard", "GET", "/{x", "bad wildcard segment"},
		{"half a wildcard", "GET", "/a{x}", "bad wildcard segment"},
		{"name twice", "GET", "/{x}/{x}", "duplicate wildcard name"},
		{"more behind the rest", "GET", "/{x...}/y", "not at end"},
		{"empty segment", "GET", "/a//b", "no request"},
		{"dots", "GET", "/a/../b", "no request"},
		{"encoded dots", "GET", "/a/%2e%2E/b", "no request"},
		{"encoded slash", "GET", "/a%2fb", "no request"},
		{"encoded percent sign", "GET", "/a%25", "no request"},
		{"parameter", "GET", "/a;b", "no request"},
		{"query", "GET", "/a?b", "no request"},
		{"line break", "GET", "/a\nb", "no request"},
		{"broken escape", "GET", "/a%zz", "no request"},
		{"again", "GET", "/api/usage", `conflicts with "GET /api/usage"`},
		{"again by another name", "GET", "/api/rates/{currency}", `conflicts with "GET /api/rates/{base}"`},
		{"overlap", "GET", "/api/{x}/EUR", `conflicts with "GET /api/rates/{base}"`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			table := newTable(t, api[:]...)
			err := table.Add(tc.method, tc.path, "new")
			if err == nil {
				t.Fatal("got no error")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, want it to say %q", err, tc.want)
			}
			if strings.Contains(err.Error(), ".go") {
				t.Errorf("got %q, want no line of this program", err)
			}
			if got, ok := table.Match("GET", "/api/usage"); !ok || got != "GET /api/usage" {
				t.Errorf("afterwards GET /api/usage is %q", got)
			}
		})
	}
}

// pieces are what random patterns and paths are made of: few, so that
// they meet often.
var (
	patternPieces = []string{"/a", "/b", "/{x}", "/{y}", "/%61", "/c", "/é"}
	patternEnds   = []string{"", "", "/", "/{$}", "/{z...}"}
	pathPieces    = []string{"/a", "/b", "/c", "/d", "/é", "/a%", "/a b", "/{x}", "/", "/.", "/.."}
	someMethods   = []string{"GET", "HEAD", "POST"}
)

func join(t *rapid.T, pieces []string, label string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 4).Draw(t, label), "")
}

// served asks a ServeMux which pattern serves a request; it is "" where
// it would redirect or refuse.
func served(mux *http.ServeMux, r *http.Request) string {
	handler, pattern := mux.Handler(r)
	if _, ours := handler.(marker); !ours {
		return ""
	}
	return pattern
}

// marker is a handler that can be told from those ServeMux makes itself.
type marker struct{}

func (marker) ServeHTTP(http.ResponseWriter, *http.Request) {}

// register adds a pattern to a ServeMux and returns its refusal.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if refusal := recover(); refusal != nil {
			err = fmt.Errorf("%v", refusal)
		}
	}()
	mux.Handle(pattern, marker{})
	return nil
}

func TestTableAgreesWithServeMux(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var mux http.ServeMux
		var table route.Table[string]
		for range rapid.IntRange(1, 10).Draw(t, "patterns") {
			method := rapid.SampledFrom(someMethods).Draw(t, "method")
			path := join(t, patternPieces, "pattern") + rapid.SampledFrom(patternEnds).Draw(t, "end")
			if path == "" {
				path = "/"
			}
			want := register(&mux, method+" "+path)
			if got := table.Add(method, path, method+" "+path); (got == nil) != (want == nil) {
				t.Fatalf("adding %s %s: got %v, ServeMux says %v", method, path, got, want)
			}
		}
		for range 50 {
			method := rapid.SampledFrom(append(someMethods, "PUT")).Draw(t, "request method")
			path := join(t, pathPieces, "path")
			if path == "" {
				path = "/"
			}
			r := &http.Request{Method: method, URL: &url.URL{Path: path}}
			want := served(&mux, r)
			if got, ok := table.Match(method, path); got != want || ok != (want != "") {
				t.Fatalf("%s %q: got %q, ServeMux says %q", method, path, got, want)
			}
			if got, ok := table.MatchWritten(method, path, r.URL); ok && got != want {
				t.Fatalf("%s %q: found %q, ServeMux says %q", method, path, got, want)
			}
			allow := strings.Split(table.Allow(path), ", ")
			for _, method := range someMethods {
				_, ok := table.Match(method, path)
				listed := false
				for _, one := range allow {
					listed = listed || one == method
				}
				if ok != listed {
					t.Fatalf("%q: %s matches: %t, but Allow is %q", path, method, ok, allow)
				}
			}
		}
	})
}

func TestTableMatchAllocatesNothing(t *testing.T) {
	table := newTable(t, api[:]...)
	for _, path := range []string{"/api/convert/EUR/10/USD", "/api/convert/EUR/10", "/nowhere"} {
		u := &url.URL{Path: path}
		got := testing.AllocsPerRun(1000, func() { table.MatchWritten("GET", path, u); table.Match("GET", path) })
		if got != 0 {
			t.Errorf("%s: got %v allocations, want 0", path, got)
		}
	}
}

func BenchmarkTableMatch(b *testing.B) {
	table := newTable(b, api[:]...)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := table.Match("GET", "/api/convert/EUR/10/USD"); !ok {
			b.Fatal("no match")
		}
	}
}
