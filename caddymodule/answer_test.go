package caddymodule_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

const convert = "/api/convert/EUR/10/USD"

// refused is a row of the table of answers: a request, and the refusal that it meets.
type refused struct {
	name   string
	method string // GET if empty
	target string // convert if empty
	header []string
	status int
	code   string
	// has are headers that must be there with this value, lacks those
	// that must not be there.
	has   map[string]string
	lacks []string
}

// refusals is the table of section "Errors", with every way that leads
// to a row.
func refusals(t *testing.T, s *site) []refused {
	_, good := s.account(t, "starter")
	_, free := s.account(t, "free")
	_, gone := s.account(t, "no_longer_there")
	_, narrow := s.account(t, "business", "rates")
	disabled, off := s.account(t, "starter")
	if _, err := storetest.PutAccount(t.Context(), s.store(t).Book, store.Account{ID: disabled, Plan: "starter", Disabled: true}); err != nil {
		t.Fatal(err)
	}
	holder, _ := s.account(t, "starter")
	revoked := s.key(t, store.Key{ID: "key_revoked", Account: holder, Name: "revoked", Abilities: []string{"convert"}})
	if err := s.store(t).RevokeKey(t.Context(), holder, "key_revoked", time.Now()); err != nil {
		t.Fatal(err)
	}
	expired := s.key(t, store.Key{ID: "key_expired", Account: holder, Name: "expired", Abilities: []string{"convert"}, ExpiresAt: time.Now().Add(-time.Second)})

	const realm = `Bearer realm="api"`
	none := map[string]string{"Www-Authenticate": realm}
	invalid := map[string]string{"Www-Authenticate": realm + `, error="invalid_token"`}
	request := map[string]string{"Www-Authenticate": realm + `, error="invalid_request"`}
	scope := map[string]string{"Www-Authenticate": realm + `, error="insufficient_scope", scope="convert"`}
	bearer := func(b string) []string { return []string{"Authorization: Bearer " + b} }
	quiet := []string{"Www-Authenticate"}
	// A token with one digit changed: its checksum is wrong.
	mistyped := good[:10] + flip(good[10]) + good[11:]
	// One that is well-formed and nobody's.
	_, unknown := s.account(t, "starter")
	if err := s.store(t).DeleteAccount(t.Context(), fmt.Sprintf("acc_%d", s.accounts)); err != nil {
		t.Fatal(err)
	}
	return []refused{
		{name: "no token", status: 401, code: "unauthenticated", has: none},
		{name: "another scheme", header: []string{"Authorization: Basic YTpi"}, status: 401, code: "unauthenticated", has: none},
		{name: "scheme alone", header: []string{"Authorization: Bearer"}, status: 401, code: "unauthenticated", has: none},
		{name: "token in another header", header: []string{"X-Api-Key: " + good}, status: 401, code: "unauthenticated", has: none},
		{name: "token in a cookie", header: []string{"Cookie: token=" + good}, status: 401, code: "unauthenticated", has: none},

		{name: "mistyped", header: bearer(mistyped), status: 401, code: "invalid_token", has: invalid},
		{name: "unknown", header: bearer(unknown), status: 401, code: "invalid_token", has: invalid},
		{name: "expired", header: bearer(expired), status: 401, code: "invalid_token", has: invalid},
		{name: "revoked", header: bearer(revoked), status: 401, code: "invalid_token", has: invalid},
		{name: "disabled", header: bearer(off), status: 401, code: "invalid_token", has: invalid},
		{name: "junk", header: bearer("junk"), status: 401, code: "invalid_token", has: invalid},
		{name: "8 KiB", header: bearer(strings.Repeat("a", 8<<10)), status: 401, code: "invalid_token", has: invalid},
		{name: "two in a list", header: bearer(good + ", Bearer " + good), status: 401, code: "invalid_token", has: invalid},

		{name: "two fields", header: append(bearer(good), bearer(good)...), status: 400, code: "invalid_request", has: request},
		{name: "access_token", target: convert + "?access_token=" + good, status: 400, code: "invalid_request", has: request},
		{name: "api_key", target: convert + "?api_key=" + good, header: bearer(good), status: 400, code: "invalid_request", has: request},

		{name: "plan without access", header: bearer(free), status: 403, code: "plan_required", lacks: quiet},
		{name: "plan that is gone", header: bearer(gone), status: 403, code: "plan_required", lacks: quiet},
		{name: "endpoint not on the plan", target: "/api/rates/EUR", header: bearer(good), status: 403, code: "not_entitled", lacks: quiet},
		{name: "ability not in the token", header: bearer(narrow), status: 403, code: "insufficient_scope", has: scope},
		{name: "ability of a group", method: "POST", target: "/api/convert/batch", header: bearer(narrow), status: 403, code: "insufficient_scope", has: scope},

		{name: "nothing there", target: "/api/nothing", header: bearer(good), status: 404, code: "not_found"},
		{name: "the guard itself", target: "/api/", status: 404, code: "not_found"},
		{name: "trailing slash", target: convert + "/", header: bearer(good), status: 404, code: "not_found"},
		{name: "another case", target: "/API/convert/EUR/10/USD", header: bearer(good), status: 404, code: "not_found"},
		{name: "another method", method: "DELETE", header: bearer(good), status: 405, code: "method_not_allowed", has: map[string]string{"Allow": "GET, HEAD"}},
		{name: "another method, no token", method: "OPTIONS", status: 405, code: "method_not_allowed", has: map[string]string{"Allow": "GET, HEAD"}},
		{name: "GET of a login", target: "/api/login", status: 405, code: "method_not_allowed", has: map[string]string{"Allow": "POST"}},
		{name: "TRACE", method: "TRACE", header: bearer(good), status: 405, code: "method_not_allowed", has: map[string]string{"Allow": "GET, HEAD"}},
		{name: "TRACE outside", method: "TRACE", target: "/page", status: 405, code: "method_not_allowed"},

		{name: "dots", target: "/api/x/../convert/EUR/10/USD", header: bearer(good), status: 400, code: "bad_path"},
		{name: "encoded dots, no token, unknown path", target: "/api/%2e%2e/nothing", status: 400, code: "bad_path"},

		{name: "unknown parameter of usage", target: "/api/usage?month=1", header: bearer(good), status: 400, code: "unknown_parameter"},
		{name: "usage without a token first", target: "/api/usage?days=91", status: 401, code: "unauthenticated"},
	}
}

func flip(b byte) string {
	if b == 'a' {
		return "b"
	}
	return "a"
}

// TestRefusals asks for every refusal, and that it cost nothing: the
// upstream saw no request, and no account has a count.
func TestRefusals(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	for _, c := range refusals(t, s) {
		t.Run(c.name, func(t *testing.T) {
			got := s.ask(t, cmp.Or(c.method, "GET"), cmp.Or(c.target, convert), "", c.header...)
			if got.status != c.status || got.code() != c.code {
				t.Fatalf("got %d %s, want %d %s", got.status, got.body, c.status, c.code)
			}
			checkRefusal(t, got, c)
			if got.header.Get("Content-Type") != "application/json; charset=utf-8" || got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("got headers %v", got.header)
			}
			if length := fmt.Sprint(len(got.body)); got.header.Get("Content-Length") != length {
				t.Errorf("got Content-Length %q, want %s", got.header.Get("Content-Length"), length)
			}
			if requestID.MatchString(got.body) == (c.status == 401) {
				t.Errorf("got body %s, want the id of the request unless it is a 401", got.body)
			}
			checkBody(t, got.same())
		})
	}
	checkFree(t, s)
}

// TestRefusalsPassed asks for the same with handle_errors wording them.
func TestRefusalsPassed(t *testing.T) {
	s := start(t, setup{zone: calmZone(), more: "errors pass", behind: `reverse_proxy UPSTREAM
	handle_errors {
		header Content-Type text/plain
		respond "{err.status_code}: {http.tollgate.code} {http.tollgate.message}"
	}`})
	for _, c := range refusals(t, s) {
		t.Run(c.name, func(t *testing.T) {
			got := s.ask(t, cmp.Or(c.method, "GET"), cmp.Or(c.target, convert), "", c.header...)
			if got.status != c.status || !strings.HasPrefix(got.body, fmt.Sprintf("%d: %s ", c.status, c.code)) || strings.HasSuffix(got.body, " ") {
				t.Fatalf("got %d %q, want %d %s in the operator's words", got.status, got.body, c.status, c.code)
			}
			if got.header.Get("Content-Type") != "text/plain" {
				t.Errorf("got Content-Type %q, want the operator's", got.header.Get("Content-Type"))
			}
			checkRefusal(t, got, c)
		})
	}
	checkFree(t, s)
}

// TestPassedFailure: the placeholders of a service that does not answer have no
// address of it.
func TestPassedFailure(t *testing.T) {
	s := start(t, setup{zone: calmZone(), more: "errors pass", behind: "reverse_proxy " + deadAddress + "\nhandle_errors {\nrespond `{http.tollgate.code}: {http.tollgate.message}`\n}"})
	_, bearer := s.account(t, "starter")
	for target, header := range map[string]string{convert: "Authorization: Bearer " + bearer, "/page": "Accept: */*"} {
		if got := s.ask(t, "GET", target, "", header); got.body != "upstream_unreachable: The service behind the gate did not answer. Try again." {
			t.Errorf("%s: got %d %s", target, got.status, got.body)
		}
	}
}

// TestRefusalsForOpenAI asks for the same with the member that SDKs of OpenAI's API
// read, in the app and in an endpoint.
func TestRefusalsForOpenAI(t *testing.T) {
	types := map[int]string{401: "authentication_error", 403: "permission_error"}
	s := start(t, setup{zone: calmZone(), more: "errors openai"})
	for _, c := range refusals(t, s) {
		t.Run(c.name, func(t *testing.T) {
			got := s.ask(t, cmp.Or(c.method, "GET"), cmp.Or(c.target, convert), "", c.header...)
			var body struct {
				Message, Code string
				Error         struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != c.status {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			want := body.Error
			want.Message, want.Type, want.Code = body.Message, cmp.Or(types[c.status], "invalid_request_error"), c.code
			if body.Error != want || body.Code != c.code || body.Message == "" || got.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
				t.Errorf("got %s", got.body)
			}
			if requestID.MatchString(got.body) == (c.status == 401) {
				t.Errorf("got body %s, want the id of the request unless it is a 401", got.body)
			}
			checkRefusal(t, got, c)
		})
	}
	checkFree(t, s)
}

// TestSameBytes has one answer for every token that opens nothing: nobody
// learns from it whether a token ever existed.
func TestSameBytes(t *testing.T) {
	s := start(t, setup{})
	answers := map[string][]string{}
	for _, c := range refusals(t, s) {
		if c.code != "invalid_token" {
			continue
		}
		got := s.ask(t, "GET", convert, "", c.header...)
		got.header.Del("Date")
		got.body = got.same()
		text := fmt.Sprint(got)
		answers[text] = append(answers[text], c.name)
	}
	if len(answers) != 1 {
		t.Errorf("got %d different answers: %v", len(answers), slices.Collect(maps.Values(answers)))
	}
}

func checkRefusal(t *testing.T, got answered, c refused) {
	t.Helper()
	for name, want := range c.has {
		if values := got.header[name]; !slices.Equal(values, []string{want}) {
			t.Errorf("got %s %q, want %q", name, values, want)
		}
	}
	lacks := append([]string{"Ratelimit", "Ratelimit-Policy", "Retry-After"}, c.lacks...)
	if c.status != http.StatusMethodNotAllowed {
		lacks = append(lacks, "Allow")
	} else if got.header.Get("Allow") == "" {
		t.Error("got no Allow with 405")
	}
	for _, name := range lacks {
		if values, there := got.header[name]; there {
			t.Errorf("got %s %q, want none", name, values)
		}
	}
	if got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got Cache-Control %q, want no-store", got.header.Get("Cache-Control"))
	}
}

// checkBody wants a message and a code, and nothing that the client sent.
func checkBody(t *testing.T, body string) {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatalf("reading the body %q: %v", body, err)
	}
	delete(members, "request_id")
	if message, _ := members["message"].(string); message == "" || len(members) != 2 {
		t.Errorf("got body %s", body)
	}
	for _, secret := range []string{"tgk_", "/api/", "127.0.0.1", "acc_"} {
		if strings.Contains(body, secret) {
			t.Errorf("the body %s contains %q", body, secret)
		}
	}
}

// checkFree wants that nothing reached the upstream and nothing was
// counted.
func checkFree(t *testing.T, s *site) {
	t.Helper()
	if n := s.upstream.seen(); n != 0 {
		r, _ := s.upstream.last(t)
		t.Errorf("the upstream saw %d requests, the last %s %s", n, r.Method, r.URL)
	}
	for i := s.since; i < s.accounts; i++ {
		account := fmt.Sprintf("acc_%d", i+1)
		for _, endpoint := range compiled(t).Endpoints {
			if n := s.used(t, account, endpoint.Name); n != 0 {
				t.Errorf("%s has %d calls to %s", account, n, endpoint.Name)
			}
		}
	}
}
