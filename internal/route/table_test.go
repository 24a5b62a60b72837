package route_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/route"
)

// api is a currency API, declared as an operator would do it.
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
		{"GET", "/api/rates/EUR/x", "GET /{rest...}"},
		{"GET", "/api/rates/EUR/", ""}, // an alias of /api/rates/{base}
		{"GET", "/a/b/z", "GET /a/b/z"},
		{"GET", "/a/b/c", "GET /a/{x}/c"},
		{"GET", "/a/b/d", "GET /a/{rest...}"},
		{"GET", "/a", ""},    // a redirect to /a/
		{"GET", "/tree", ""}, // a redirect to /tree/
		{"GET", "/exact/", "GET /exact/{$}"},
		{"GET", "/exact", ""}, // a redirect to /exact/
		{"GET", "/café", "GET /caf%C3%A9"},
		{"GET", "/", "GET /{rest...}"},
		{"GET", "", "GET /{rest...}"},
		{"GET", "relative", ""},
		{"GET", "/x//y", ""},
		{"HEAD", "/own", "HEAD /own"},
		{"get", "/api/usage", ""},
	}
	for _, tc := range cases {
		got, ok := table.Match(tc.method, tc.path)
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: got %q, %t; want %q", tc.method+" "+tc.path, got, ok, tc.want)
		}
	}
}

func TestTableAddRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, method, path, want string }{
		{"no method", "", "/x", "method is missing"},
		{"space before", "GET", " /x", "begin with a slash"},
		{"duplicate name", "GET", "/{x}/{x}", "duplicate wildcard name"},
		{"segment after the rest", "GET", "/{x...}/y", "not at end"},
		{"empty segment", "GET", "/a//b", "cannot match any request"},
		{"dots", "GET", "/a/../b", "cannot match any request"},
		{"encoded dots", "GET", "/a/%2e%2E/b", "cannot match any request"},
		{"encoded slash", "GET", "/a%2fb", "cannot match any request"},
		{"encoded percent sign", "GET", "/a%25", "cannot match any request"},
		{"parameter", "GET", "/a;b", "cannot match any request"},
		{"query", "GET", "/a?b", "cannot match any request"},
		{"line break", "GET", "/a\nb", "cannot match any request"},
		{"broken escape", "GET", "/a%zz", "cannot match any request"},
		{"duplicate", "GET", "/api/usage", `conflicts with "GET /api/usage"`},
		{"duplicate with another name", "GET", "/api/rates/{currency}", `conflicts with "GET /api/rates/{base}"`},
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

// Random patterns and paths consist of these pieces. There are few, so that
// they often match.
var (
	patternPieces = []string{"/a", "/b", "/{x}", "/{y}", "/%61", "/c", "/é", "/A", "/%C3%89", "/e", "/f", "/g", "/h", "/i", "/j"}
	patternEnds   = []string{"", "", "/", "/{$}", "/{z...}"}
	pathPieces    = []string{"/a", "/b", "/c", "/d", "/é", "/A", "/B", "/É", "/a%", "/a b", "/{x}", "/", "/.", "/.."}
	someMethods   = []string{"GET", "HEAD", "POST", "*"}
	asked         = []string{"GET", "HEAD", "POST", "PUT", "get", "CONNECT"}
)

func join(t *rapid.T, pieces []string, label string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 4).Draw(t, label), "")
}

// served returns the pattern by which a ServeMux serves a request, and ""
// if it would redirect or refuse.
func served(mux *http.ServeMux, r *http.Request) string {
	handler, pattern := mux.Handler(r)
	if _, ours := handler.(marker); !ours {
		return ""
	}
	return pattern
}

// marker is a handler that differs from those that ServeMux makes itself.
type marker struct{}

func (marker) ServeHTTP(http.ResponseWriter, *http.Request) {}

// register adds a pattern to a ServeMux and returns its panic as an error.
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
		var patterns []string
		for range rapid.IntRange(1, 20).Draw(t, "patterns") {
			method := rapid.SampledFrom(someMethods).Draw(t, "method")
			path := join(t, patternPieces, "pattern") + rapid.SampledFrom(patternEnds).Draw(t, "end")
			if path == "" {
				path = "/"
			}
			want := register(&mux, strings.TrimPrefix(method+" "+path, "* "))
			if want == nil {
				patterns = append(patterns, method+" "+path)
			}
			if got := table.Add(method, path, method+" "+path); (got == nil) != (want == nil) {
				t.Fatalf("adding %s %s: got %v, ServeMux says %v", method, path, got, want)
			}
		}
		for range 50 {
			method := rapid.SampledFrom(asked).Draw(t, "request method")
			path := join(t, pathPieces, "path")
			if path == "" {
				path = "/"
			}
			r := &http.Request{Method: method, URL: &url.URL{Path: path}}
			want := served(&mux, r)
			if strings.HasPrefix(want, "/") {
				if want = "* " + want; method == "get" || method == "CONNECT" {
					want = "" // a lenient server reads GET, and no service gets CONNECT
				}
			}
			if isAlias(patterns, want, method, path) {
				want = ""
			}
			if got, ok := table.Match(method, path); got != want || ok != (want != "") {
				t.Fatalf("%s %q: got %q, ServeMux says %q", method, path, got, want)
			}
			allow := strings.Split(table.Allow(&route.Target{Path: path}), ", ")
			for _, method := range asked {
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
		got := testing.AllocsPerRun(1000, func() { table.Match("GET", path) })
		if got != 0 {
			t.Errorf("%s: got %v allocations, want 0", path, got)
		}
	}
}
