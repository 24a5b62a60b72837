package route_test

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/route"
)

// seeds are the first targets of the fuzz tests.
var seeds = [...]string{
	"/api/convert/EUR/10/USD", "/api/rates/%45UR", "/api/rates/a%2Fb", "/api/x/../rates/EUR", "//api", "/api/%2e%2E/x",
	"/api;v=1/x", "/%2561pi/x", "/open/%252e%252e/api/x", "/API/rates/EUR", "/ap%C4%B1/x", `/api\x`, "/api/é", "/api/%c0%af",
	"http://example.com/api/usage", "http://example.com", "*", "/tree", "/tree/", "/open/..;/api", "/;/api", "/api%3Fx", "/a#b",
}

// agreement is a gate that closes everything, and the ServeMux of the
// server behind it.
type agreement struct {
	guard *route.Guard
	table *route.Table[string]
	mux   *http.ServeMux

	patterns []string
}

func newAgreement(t testing.TB) agreement {
	t.Helper()
	patterns := append(api[:], "GET /a/b", "GET /a/{x}/api", "GET /a/{x}/EUR/{y...}", "GET /tree/", "GET /a/{rest...}", "GET /b/{$}", "GET /c/{x}/d", "HEAD /c/e/d", "GET /open/{x...}")
	mux := http.NewServeMux()
	for _, pattern := range patterns {
		if err := register(mux, pattern); err != nil {
			t.Fatal(err)
		}
	}
	return agreement{newGuard(t), newTable(t, patterns...), mux, patterns}
}

// check fails if the table matches an accepted target with another pattern
// than the ServeMux of the server that gets the request.
func (a agreement) check(t rapid.TB, method, target string) {
	r := read(method, target)
	if r == nil {
		return
	}
	checked, err := a.guard.CheckTarget(r.Method, r.RequestURI, r.URL)
	if err != nil {
		return
	}
	got, ok, err := a.table.Find(r.Method, &checked)
	if err != nil {
		return
	}
	forwarded := read(method, r.URL.RequestURI())
	if forwarded == nil {
		t.Fatalf("%s %q is sent on as %q, which cannot be read", method, target, r.URL.RequestURI())
	}
	want := served(a.mux, forwarded)
	if isAlias(a.patterns, want, r.Method, forwarded.URL.Path) {
		want = ""
	}
	if got != want || ok != (want != "") {
		t.Fatalf("%s %q: got %q, but %q serves it", method, target, got, want)
	}
	// A careless server reads the path again and again.
	for read := r.URL.Path; ok; read = unescape(read) {
		end := strings.IndexAny(read, "?#")
		if end < 0 {
			end = len(read)
		}
		slash := strings.HasSuffix(strings.ReplaceAll(read[:end], `\`, "/"), "/")
		if read = resolve(read); slash && read != "/" {
			read += "/"
		}
		if again, _ := a.table.Match(r.Method, read); again != got {
			t.Fatalf("%s %q: got %q, but as %q it is %q", method, target, got, read, again)
		}
		ok = unescape(read) != read
	}
}

func FuzzPathAgreement(f *testing.F) {
	for _, seed := range seeds {
		f.Add("GET", seed)
		f.Add("HEAD", seed)
	}
	both := newAgreement(f)
	f.Fuzz(func(t *testing.T, method, target string) { both.check(t, method, target) })
}

// FuzzCheckTarget compares the check, a single pass over the bytes, with
// hasOneReading, which uses the standard library.
func FuzzCheckTarget(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	guard := newGuard(f)
	f.Fuzz(func(t *testing.T, target string) { checkReading(t, guard, target) })
}

func checkReading(t rapid.TB, guard *route.Guard, target string) {
	r := read(http.MethodGet, target)
	if r == nil {
		return
	}
	got, err := checkTarget(guard, r.Method, r.RequestURI, r.URL)
	if want := hasOneReading(r); !got.Closed || (err == nil) != want {
		t.Fatalf("%q: got closed %t, error %v; want it accepted: %t", target, got.Closed, err, want)
	}
}

func hasOneReading(r *http.Request) bool {
	raw, _, _ := strings.Cut(r.RequestURI, "?")
	if r.URL.Opaque != "" || r.URL.User != nil || strings.Contains(raw, "#") || strings.Contains(strings.ToLower(raw), "%2f") {
		return false
	}
	if raw[0] != '/' && (r.URL.Scheme != "http" && r.URL.Scheme != "https" || r.URL.Host == "") {
		return false
	}
	decoded := r.URL.Path
	if !utf8.ValidString(decoded) || strings.ContainsAny(decoded, `\%;?#`) || strings.ContainsFunc(decoded, unicode.IsControl) {
		return false
	}
	if decoded == "" {
		return true
	}
	segments := strings.Split(decoded, "/")
	for i, segment := range segments[1:] {
		last := i == len(segments)-2
		if segment == "" && !last || segment == "." || segment == ".." {
			return false
		}
	}
	return segments[0] == ""
}

// Threat: a path is open to the gate, but leads below the guard on a server
// that resolves more than HTTP asks for: double escapes, parameters, dots,
// empty segments, case, backslashes.
// Expectation: an open path stays open, however the server resolves it.
func FuzzOpenPathStaysOpen(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	guard := newGuard(f, "/api/")
	f.Fuzz(func(t *testing.T, target string) { checkOpen(t, guard, target) })
}

func checkOpen(t rapid.TB, guard *route.Guard, target string) {
	r := read(http.MethodGet, target)
	if r == nil {
		return
	}
	if got, err := guard.CheckTarget(r.Method, r.RequestURI, r.URL); got.Closed || err != nil {
		return
	}
	resolved := r.URL.Path
	for range 8 {
		resolved = resolve(resolved)
		if lower := strings.ToLower(resolved); lower == "/api" || strings.HasPrefix(lower, "/api/") {
			t.Fatalf("%q is open and leads to %q", target, resolved)
		}
		resolved = unescape(resolved)
	}
}

// TestTargetsOfAttackPieces does the three checks above on targets that are
// made of pieces of known attacks.
func TestTargetsOfAttackPieces(t *testing.T) {
	t.Parallel()
	pieces := rapid.SampledFrom([]string{
		"/", "/", "/", "/api", "/api/", "/open/", "/API/", "/rates/", "EUR", "usage", "a", "/c/e/d", "/tree", "api",
		".", "..", "%2e", "%2E", "%252e", "%25252E", ";", ";v=1", "%3b", "%253B", "%2f", "%252f", "%5c", "%255c", `\`,
		"?", "%3f", "%253F", "#", "%23", "%", "%25", "%2525", "%61", "%2561", "%70", "%20", "%00", "%7f", "%C2%85",
		"\u0131", "%c4%b1", "\u212a", "%c0%ae", "%c0%af", "\xff", "é", "%c3%a9", "\u2215", "http://example.com", "*",
	})
	both, everything, api := newAgreement(t), newGuard(t), newGuard(t, "/api/")
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			target := strings.Join(rapid.SliceOfN(pieces, 1, 7).Draw(t, "pieces"), "")
			if rapid.Bool().Draw(t, "from the root") {
				target = "/" + target
			}
			both.check(t, rapid.SampledFrom(someMethods).Draw(t, "method"), target)
			checkReading(t, everything, target)
			checkOpen(t, api, target)
		}
	})
}

// resolve reads a path as careless servers do.
func resolve(text string) string {
	text = strings.ReplaceAll(text, `\`, "/")
	if end := strings.IndexAny(text, "?#"); end >= 0 {
		text = text[:end]
	}
	segments := strings.Split(text, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return path.Clean("/" + strings.Join(segments, "/"))
}

// unescape decodes all valid escapes once.
func unescape(text string) string {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if i+3 <= len(text) {
			if one, err := url.PathUnescape(text[i : i+3]); err == nil && len(one) == 1 {
				plain.WriteString(one)
				i += 2
				continue
			}
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}
