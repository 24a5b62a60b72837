package gate_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// modes are two worlds that differ in the mode, with an endpoint whose body is
// the cost.
func newMode(t *testing.T, mode policy.Mode) *world {
	t.Helper()
	return newWorld(t, func(c *policy.Config) {
		c.Mode = mode
		c.Endpoints = append(c.Endpoints,
			policy.EndpointConfig{Name: "batch", Patterns: []string{"POST /api/batch"}, CostMember: "items", CostBody: 64},
			policy.EndpointConfig{Name: "extra", Patterns: []string{"GET /api/extra"}})
		c.Plans[0].Limits["batch"] = new(policy.Limit(5))
		c.Plans = append(c.Plans, policy.PlanConfig{Name: "none"})
	})
}

// TestShadow sends equal requests in both modes. What shadow refuses, enforce
// refuses with the same code; shadow reports what it passes.
func TestShadow(t *testing.T) {
	t.Parallel()
	const junk = "Authorization: Bearer junk"
	big := `{"items":[` + strings.Repeat("1,", 40) + `1]}`
	for name, c := range map[string]struct {
		method, target, body string
		headers              []string // BEARER is a valid token
		code                 string
		refused              bool // also in shadow
		known                bool // passes as a call of the account
		prepare              func(*testing.T, *world)
	}{
		"no token":               {target: convert, code: "unauthenticated", headers: []string{"Cookie: a=b"}},
		"foreign token":          {target: convert, code: "invalid_token", headers: []string{junk, "Cookie: a=b"}},
		"two fields":             {target: convert, code: "invalid_request", headers: []string{junk, "Authorization: Basic YTpi"}},
		"token in the query":     {target: convert + "?access_token=x", code: "invalid_request"},
		"method in the query":    {target: convert + "?_method=PUT", code: "invalid_request"},
		"method of a login":      {method: "POST", target: "/api/login?_method=PUT", code: "invalid_request", refused: true},
		"unknown path":           {target: "/api/nothing", code: "not_found", headers: []string{"Authorization: Bearer BEARER"}},
		"method":                 {method: "DELETE", target: convert, code: "method_not_allowed"},
		"upgrade":                {target: convert, code: "upgrade_not_allowed", headers: []string{"Connection: keep-alive, Upgrade", "Upgrade: websocket"}},
		"words of Connection":    {target: convert, code: "unauthenticated", headers: []string{"Connection: close, X-Own"}},
		"path":                   {target: "/api//convert", code: "bad_path", refused: true},
		"TRACE":                  {method: "TRACE", target: convert, code: "method_not_allowed", refused: true},
		"unknown token":          {target: convert, code: "invalid_token", refused: true, headers: []string{"Authorization: Bearer UNKNOWN"}},
		"disabled account":       {target: convert, code: "invalid_token disabled", known: true, refused: true, headers: []string{"Authorization: Bearer BEARER"}, prepare: disable},
		"usage without a token":  {target: "/api/usage", code: "unauthenticated", refused: true},
		"login alias":            {method: "POST", target: "/API/Login", code: "not_found", refused: true, body: "{}"},
		"login that is no JSON":  {method: "POST", target: "/api/login", code: "unsupported_media_type", refused: true, body: "x"},
		"plan that is gone":      {target: convert, code: "plan_required", known: true, headers: []string{"Authorization: Bearer BEARER"}, prepare: onPlan("gone")},
		"endpoint of other plan": {target: "/api/extra", code: "not_entitled", known: true, headers: []string{"Authorization: Bearer BEARER", "Cookie: a=b"}},
		"over the limit":         {target: convert, code: "quota_exceeded", known: true, headers: []string{"Authorization: Bearer BEARER"}, prepare: exhaust},
		"too large a body":       {method: "POST", target: "/api/batch", body: big, code: "body_too_large", known: true, headers: []string{"Authorization: Bearer BEARER", "Content-Type: application/json"}},
		"not the media type":     {method: "POST", target: "/api/batch", body: "<x/>", code: "unsupported_media_type", known: true, headers: []string{"Authorization: Bearer BEARER", "Content-Type: text/xml"}},
		"no JSON":                {method: "POST", target: "/api/batch", body: `{"items":1}`, code: "invalid_request", known: true, headers: []string{"Authorization: Bearer BEARER", "Content-Type: application/json"}},
		"cost above the limit":   {method: "POST", target: "/api/batch", body: `{"items":[1,1,1,1,1,1]}`, code: "cost_above_limit", known: true, headers: []string{"Authorization: Bearer BEARER", "Content-Type: application/json"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range []policy.Mode{policy.Enforce, policy.Shadow} {
				w := newMode(t, mode)
				bearer := w.account(t, "acc_1")
				if c.prepare != nil {
					c.prepare(t, w)
				}
				headers := slices.Clone(c.headers)
				for i := range headers {
					headers[i] = strings.NewReplacer("BEARER", bearer, "UNKNOWN", newToken(t).Reveal()).Replace(headers[i])
				}
				forged := append(slices.Clone(headers), "Tollgate-Account: acc_2", "X-Original-Url: /x")
				var seen *http.Request
				var body string
				w.next = func(rw http.ResponseWriter, r *http.Request) error {
					seen = r.Clone(r.Context())
					all, err := io.ReadAll(r.Body)
					rw.WriteHeader(http.StatusTeapot)
					body = string(all)
					return err
				}
				w.refused = nil
				before := w.used(t, "acc_1", "convert", noon) + w.used(t, "acc_1", "batch", noon)
				answer, err := w.ask(orGet(c.method), c.target, c.body, forged...)
				if err != nil {
					t.Fatal(err)
				}
				if len(w.refused) != 1 || !strings.HasSuffix(w.refused[0], " "+c.code) || strings.HasPrefix(w.refused[0], "acc_1 ") != c.known {
					t.Errorf("%s: reported %q, want one %s, known %t", mode, w.refused, c.code, c.known)
				}
				if passes := mode == policy.Shadow && !c.refused; (seen != nil) != passes || (answer.Code == http.StatusTeapot) != passes {
					t.Fatalf("%s: got %d %s", mode, answer.Code, answer.Body)
				} else if !passes {
					continue
				}
				if after := w.used(t, "acc_1", "convert", noon) + w.used(t, "acc_1", "batch", noon); after != before {
					t.Errorf("counted %d calls", after-before)
				}
				if body != c.body {
					t.Errorf("the service got the body %q", body)
				}
				if c.known {
					checkKnown(t, seen.Header, answer.Header())
				} else {
					checkUnchanged(t, seen.Header, answer.Header(), headers)
				}
			}
		})
	}
}

func orGet(method string) string {
	if method == "" {
		return http.MethodGet
	}
	return method
}

func disable(t *testing.T, w *world) {
	t.Helper()
	_, err := w.db.ChangeAccount(t.Context(), "acc_1", func(a *store.Account, _ bool) error {
		a.Disabled = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func onPlan(plan string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		_, err := w.db.ChangeAccount(t.Context(), "acc_1", func(a *store.Account, _ bool) error {
			a.Plan = plan
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func exhaust(t *testing.T, w *world) {
	t.Helper()
	w.override(t, "acc_1", store.Override{Limit: store.Limit{Endpoint: "convert", Period: store.Day, Max: 0}, CreatedAt: noon})
}

// checkKnown checks that a call goes on as an admitted one.
func checkKnown(t *testing.T, request, answer http.Header) {
	t.Helper()
	if request.Get("Tollgate-Account") != "acc_1" || request.Get("Tollgate-Assertion") == "" || request.Get("Authorization") != "" {
		t.Errorf("the service got %v", request)
	}
	if answer.Get("Cache-Control") != "no-store" {
		t.Errorf("the client got %v", answer)
	}
}

// checkUnchanged checks that the request has the headers of the client only,
// and that the answer has none of the gate.
func checkUnchanged(t *testing.T, request, answer http.Header, sent []string) {
	t.Helper()
	want := http.Header{}
	for _, line := range sent {
		name, value, _ := strings.Cut(line, ": ")
		want.Add(name, value)
	}
	for name, values := range request {
		if !slices.Equal(values, want[name]) {
			t.Errorf("the service got %s %q, want %q", name, values, want[name])
		}
	}
	if len(request) != len(want) || len(answer) != 0 {
		t.Errorf("the service got %v, want %v; the client got %v", request, want, answer)
	}
}

// TestShadowEscape: an upgrade to another version of HTTP stays removed. Otherwise, the
// requests inside would reach the service with forged identities.
func TestShadowEscape(t *testing.T) {
	t.Parallel()
	w := newMode(t, policy.Shadow)
	for _, target := range []string{convert, "/open", "/api/nothing"} {
		var got http.Header
		w.next = func(_ http.ResponseWriter, r *http.Request) error {
			got = r.Header.Clone()
			return nil
		}
		if _, err := w.ask("GET", target, "", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"); err != nil {
			t.Fatal(err)
		}
		if len(got) != 0 {
			t.Errorf("%s: the service got %v", target, got)
		}
	}
}

// TestShadowErrors: errors of the next handler come back as they are, and a
// body that was not read closes the connection.
func TestShadowErrors(t *testing.T) {
	t.Parallel()
	w := newMode(t, policy.Shadow)
	w.next = func(http.ResponseWriter, *http.Request) error { return failure(http.StatusBadGateway) }
	answer, err := w.ask("POST", "/api/nothing", "smuggled")
	if !errors.Is(err, failure(http.StatusBadGateway)) || answer.Header().Get("Connection") != "close" {
		t.Errorf("got %v, %v", err, answer.Header())
	}
	if len(w.refused) != 1 || w.outcomes["none failed"] != 0 {
		t.Errorf("got %v, %v", w.refused, w.outcomes)
	}
}

// TestShadowRooms: a call over a limit shows that nothing remains. Its failure
// is not refunded.
func TestShadowRooms(t *testing.T) {
	t.Parallel()
	w := newMode(t, policy.Shadow)
	bearer := w.account(t, "acc_1")
	for range 5 {
		w.get(t, convert, bearer)
	}
	w.next = func(http.ResponseWriter, *http.Request) error { return failure(http.StatusBadGateway) }
	answer := w.get(t, convert, bearer)
	if got := answer.Header().Get("Ratelimit"); answer.Code != 502 || !strings.HasPrefix(got, `"convert";r=0;`) {
		t.Errorf("got %d, %s", answer.Code, got)
	}
	if got := w.used(t, "acc_1", "convert", noon); got != 5 {
		t.Errorf("counted %d, want 5", got)
	}
	if w.outcomes["convert exhausted"] != 1 || w.outcomes["convert admitted"] != 5 || w.outcomes["convert refunded"] != 0 {
		t.Errorf("got %v", w.outcomes)
	}
}
