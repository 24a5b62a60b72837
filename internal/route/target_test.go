package route_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/route"
)

func mustParse(t testing.TB, target string) *url.URL {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Names with anything in them are honest as long as they have one
// reading.
func TestCheckTargetAccepts(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, target string
		closed       bool
	}{
		{"plain", "/api/convert/EUR/10/USD", true},
		{"query", "/api/rates/EUR?symbols=USD,GBP&x=%2F..%2f%00;\\//", true},
		{"trailing slash", "/api/rates/", true},
		{"decimal point", "/api/convert/EUR/10.50/USD", true},
		{"dots in names", "/api/..a/a../.well-known/.../a.b", true},
		{"encoded letter", "/api/rates/%45UR", true},
		{"encoded UTF-8", "/api/%e2%88%95", true},
		{"look-alike slash", "/api/a\u2215b\uff0fc\u29f8d", true},
		{"half encoded UTF-8", "/api/%c3\xa9", true},
		{"four bytes", "/api/%f0%9f%92%b6", true},
		{"other punctuation", "/api/~!$&'()*+,=:@-_|^`{}<>\"[]", true},
		{"absolute", "http://example.com/api/x?y", true},
		{"root", "/", false},
		{"open", "/apiary/x", false},
		{"absolute and empty", "http://example.com", false},
		{"open percent sign", "/sale/50%25", false},
		{"open parameter", "/x;v=1/y", false},
		{"open question mark", "/what%3F", false},
		{"open number sign", "/c%23", false},
		{"open and encoded twice", "/files/a%252520b", false},
		{"open slash in a name", "/packages/@scope%2Fname", false},
		{"open backslash in a name", "/shares/host%5Cname", false},
	}
	guard := newGuard(t, "/api/")
	for _, tc := range cases {
		got, err := guard.CheckTarget(http.MethodGet, tc.target, mustParse(t, tc.target))
		if err != nil || got.Closed != tc.closed || got.Written != "" {
			t.Errorf("%s: got %+v, error %v; want closed %t", tc.target, got, err, tc.closed)
		}
	}
}

func TestCheckTargetMethods(t *testing.T) {
	t.Parallel()
	guard := newGuard(t, "/api/")
	cases := map[string]error{
		"GET": nil, "HEAD": nil, "POST": nil, "OPTIONS": nil, "PROPFIND": nil, "CONNECTED": nil,
		"CONNECT": route.ErrBadMethod, "TRACE": route.ErrBadMethod, "trace": route.ErrBadMethod, "Connect": route.ErrBadMethod,
	}
	for method, want := range cases {
		for _, path := range []string{"/api/x", "/open"} {
			if _, err := guard.CheckTarget(method, path, mustParse(t, path)); !errors.Is(err, want) {
				t.Errorf("%s %s: got %v, want %v", method, path, err, want)
			}
		}
	}
	// The target of a tunnel is an authority, and no reason for another
	// answer.
	if _, err := guard.CheckTarget("CONNECT", "example.com:443", &url.URL{Host: "example.com:443"}); !errors.Is(err, route.ErrBadMethod) {
		t.Errorf("CONNECT example.com:443: got %v, want %v", err, route.ErrBadMethod)
	}
}

func TestCheckTargetAllocatesNothing(t *testing.T) {
	guard := newGuard(t, "/api/")
	for _, target := range []string{
		"/api/convert/EUR/10/USD?date=2026-11-20", "/api/rates/%45UR", "/api/é", "http://example.com/api/x", "/open", "/api/../x",
	} {
		u := mustParse(t, target)
		got := testing.AllocsPerRun(1000, func() {
			_, err := guard.CheckTarget("GET", target, u)
			if (err != nil) != strings.Contains(target, "..") {
				t.Error("judged wrong")
			}
		})
		if got != 0 {
			t.Errorf("%s: got %v allocations, want 0", target, got)
		}
	}
}
