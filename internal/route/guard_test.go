package route_test

import (
	"testing"
	"unicode"

	"github.com/caddy-tollgate/tollgate/internal/route"
)

func newGuard(t testing.TB, prefixes ...string) *route.Guard {
	t.Helper()
	guard, err := route.NewGuard(prefixes...)
	if err != nil {
		t.Fatalf("NewGuard(%q): %v", prefixes, err)
	}
	return guard
}

func TestGuardCovers(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, guard, path string
		want              bool
	}{
		{"inside", "/api/", "/api/convert", true},
		{"without its slash", "/api/", "/api", true},
		{"a longer name", "/api/", "/apiary", false},
		{"a longer name, no slash", "/api", "/apiary", true},
		{"outside", "/api/", "/", false},
		{"too short", "/api/", "/ap", false},
		{"empty path", "/api/", "", false},
		{"everything", "/", "/anything", true},
		{"everything, empty path", "/", "", true},
		{"capitals", "/api/", "/API/convert", true},
		{"Kelvin sign", "/keys/", "/\u212aeys/x", true},
		{"long s", "/keys/", "/key\u017f/x", true},
		{"dotted I", "/api/", "/ap\u0130/x", true},
		{"Kelvin sign in the guard", "/\u212aeys/", "/keys/x", true},
		{"accents differ", "/café/", "/cafe/x", false},
		{"parameter", "/api/", "/api;v=1/convert", true},
		{"parameter at the end", "/api/", "/api;v=1", true},
		{"parameter of a longer name", "/api/", "/apiary;v=1/x", false},
		{"decoded question mark", "/api/", "/api?x", true},
		{"decoded fragment", "/api/", "/api#x", true},
		{"invalid UTF-8", "/api/", "/ap\xff/", false},
	}
	for _, tc := range cases {
		if got := newGuard(t, tc.guard).Covers(tc.path); got != tc.want {
			t.Errorf("%s: guard %q, path %q: got %t, want %t", tc.name, tc.guard, tc.path, got, tc.want)
		}
	}
}

func TestGuardOfSeveralPrefixes(t *testing.T) {
	t.Parallel()
	guard := newGuard(t, "/api/", "/admin")
	for path, want := range map[string]bool{"/api/x": true, "/admin": true, "/login": false} {
		if got := guard.Covers(path); got != want {
			t.Errorf("%s: got %t, want %t", path, got, want)
		}
	}
}

func TestNewGuardRefuses(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{
		"", "api/", "*", "http://host/api/", "//", "/api//", "/./", "/..", "/%61pi/", "/api;v=1/", "/api?", "/#", `/api\`,
		"/\x00", "/\u0085", "/\xff",
	} {
		if _, err := route.NewGuard("/ok/", prefix); err == nil {
			t.Errorf("%q: got no error", prefix)
		}
	}
}

// Letters that are equal in Unicode's simple case folding must be equal to
// a guard.
func TestGuardFoldsEveryLetter(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		other := unicode.SimpleFold(r)
		if other == r {
			continue
		}
		if guard := newGuard(t, "/"+string(r)+"/"); !guard.Covers("/" + string(other) + "/x") {
			t.Errorf("the guard of %U is open for %U", r, other)
		}
	}
}

func TestLenient(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/login": "/login", "/LOGIN": "/login", "/login/": "/login", "/login;x=1": "/login", "/a;b/login;c/": "/a/login",
		"/lo%67in": "/login", "/lo%2567in": "/login", "/\u017fession": "/session", "/": "/", "/loginx": "/loginx",
	} {
		if got := route.Lenient(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}
