package e2e_test

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestDocumentListsRefusals provokes each refusal of the gate, and checks
// that the OpenAPI document has its status, code and headers.
func TestDocumentListsRefusals(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 1\n", "rates 1000\n", "\n"))
	_, text := s.Call("GET", "/openapi.json", "", nil)
	document, err := openapi3.NewLoader().LoadFromData([]byte(text))
	must(t, err)
	refused := func(method, pattern, path, token, body string, status int, want string) {
		t.Helper()
		var content io.Reader
		if body != "" {
			content = strings.NewReader(body)
		}
		response, text := s.Call(method, path, token, content)
		if response.StatusCode != status || code(t, text) != want {
			t.Errorf("%s %s: got %d %s, want %d %s", method, path, response.StatusCode, text, status, want)
			return
		}
		operation := document.Paths.Find(pattern).GetOperation(method)
		documented(t, operation, response, want)
		if example := operation.Responses.Status(status).Value.Content.Get("application/json").Examples[want]; example == nil {
			t.Errorf("%s has no example of %s", operation.OperationID, want)
		} else if got := slices.Sorted(maps.Keys(withoutMember(decode[map[string]any](t, text), "request_id"))); !slices.Equal(got, slices.Sorted(maps.Keys(example.Value.Value.(map[string]any)))) {
			t.Errorf("%s: the example of %s is %v, the answer is %s", operation.OperationID, want, example.Value.Value, text)
		}
	}
	const convert, rates, login, usage = "/api/convert/{from}/{amount}/{to}", "/api/rates/{base}", "/api/login", "/api/usage"
	const conversion = "/api/convert/EUR/10/USD"
	ada := newAccount(t, s, "ada@example.com", "starter")
	token := newKey(t, s, ada, "ci").Token
	narrow := decode[issued](t, s.Tollgate("key", "create", ada, "--name", "narrow", "--ability", "history", "--json")).Token
	bob := newAccount(t, s, "bob@example.com", "starter")
	free := newKey(t, s, bob, "ci").Token
	s.Upstream("", "account", "set", bob, "--plan", "free")

	refused("GET", convert, "/api/convert/EUR/10/..%2fUSD", token, "", 400, "bad_path")
	refused("GET", convert, conversion+"?access_token="+token, token, "", 400, "invalid_request")
	refused("GET", convert, conversion, "", "", 401, "unauthenticated")
	refused("GET", convert, conversion, "tgk_wrong", "", 401, "invalid_token")
	refused("GET", convert, conversion, free, "", 403, "plan_required")
	refused("GET", rates, "/api/rates/EUR", token, "", 403, "not_entitled")
	refused("GET", convert, conversion, narrow, "", 403, "insufficient_scope")
	refused("GET", usage, "/api/usage?days=0", token, "", 400, "invalid_request")
	refused("GET", usage, "/api/usage", "", "", 401, "unauthenticated")
	if response, text := s.Call("GET", conversion, token, nil); response.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", response.StatusCode, text)
	} else {
		documented(t, document.Paths.Find(convert).Get, response, "")
	}
	refused("GET", convert, conversion, token, "", 429, "quota_exceeded")
	refused("POST", login, "/api/login", "", "{", 400, "invalid_request")
	refused("POST", login, "/api/login", "", strings.Repeat(" ", 5000), 413, "body_too_large")

	s.StopUpstream()
	const credentials = `{"email":"ada@example.com","password":"wrong password"}`
	history := "/api/history/{from}/{to}"
	refused("GET", history, "/api/history/EUR/USD", token, "", 502, "upstream_unreachable")
	for range 5 {
		refused("POST", login, "/api/login", "", credentials, 502, "upstream_unreachable")
	}
	refused("POST", login, "/api/login", "", credentials, 429, "too_many_attempts")
}

// withoutMember returns the members of an object except one.
func withoutMember(members map[string]any, name string) map[string]any {
	delete(members, name)
	return members
}

// documented fails the test unless the document of an operation has the
// status of an answer, its code, and the headers that are part of the API.
func documented(t *testing.T, operation *openapi3.Operation, response *http.Response, code string) {
	t.Helper()
	known := operation.Responses.Status(response.StatusCode)
	if known == nil {
		t.Errorf("%s does not document %d", operation.OperationID, response.StatusCode)
		return
	}
	_, codes, _ := strings.Cut(*known.Value.Description, "Codes: ")
	if code != "" && !slices.Contains(strings.Split(strings.TrimSuffix(codes, "."), ", "), code) {
		t.Errorf("%s documents %d with the codes %q, not %s", operation.OperationID, response.StatusCode, codes, code)
	}
	for _, name := range []string{"Allow", "RateLimit", "RateLimit-Policy", "Retry-After", "WWW-Authenticate"} {
		if response.Header.Get(name) != "" && known.Value.Headers[name] == nil {
			t.Errorf("%s: %d has the undocumented header %s", operation.OperationID, response.StatusCode, name)
		}
	}
}
