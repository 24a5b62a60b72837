package gate_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// TestTokenWithoutBearerIsExplained: a client that sends a token in
// Authorization in another way learns the right way. Code and challenge are
// those of a missing token, and the answer does not repeat what was sent.
func TestTokenWithoutBearerIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	own := w.account(t, "acc_1")
	w.next = noUpstream(t)
	for _, field := range []string{own, "Token " + own, "Bearer: " + own, "bearer=" + own, "Basic " + own, "Bearer", "tgk_short"} {
		got := w.send(t, "GET", convert, "", "Authorization: "+field)
		if body := got.Body.String(); got.Code != http.StatusUnauthorized || !strings.Contains(body, "Write the word Bearer and one space in front of the token.") ||
			!strings.Contains(body, `"code":"unauthenticated"`) || strings.Contains(body, "tgk_") {
			t.Errorf("%.12q: got %d %s", field, got.Code, body)
		}
		if challenge := got.Header().Get("WWW-Authenticate"); challenge != `Bearer realm="api"` {
			t.Errorf("%.12q: got the challenge %q", field, challenge)
		}
	}
	if got := w.send(t, "GET", convert, ""); strings.Contains(got.Body.String(), "has no Bearer token") {
		t.Errorf("without Authorization: %s", got.Body)
	}
}

// TestBadParameterHasOneCode: a bad query of the gate's own endpoint has the
// codes of the other APIs.
func TestBadParameterHasOneCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	own := w.account(t, "acc_1")
	for query, code := range map[string]string{
		"month=1": "unknown_parameter", "days=1&month=1": "unknown_parameter", "Days=1": "unknown_parameter",
		"days=0": "invalid_request", "days=": "invalid_request", "days=1&days=1": "invalid_request", "days=91": "invalid_request", "days=%zz": "invalid_request",
	} {
		got := w.send(t, "GET", "/api/usage?"+query, "", "Authorization: Bearer "+own)
		if got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), `"code":"`+code+`"`) {
			t.Errorf("?%s: got %d %s, want %s", query, got.Code, got.Body, code)
		}
	}
	if n := w.used(t, "acc_1", "usage", noon); n != 0 {
		t.Errorf("counted %d", n)
	}
}

// TestUnknownPathNamesTheDocs: all forms of a 404 say where the documentation
// is, if the configuration does.
func TestUnknownPathNamesTheDocs(t *testing.T) {
	t.Parallel()
	for _, docs := range []string{"", "/docs", "https://docs.example.com/v1?a=b"} {
		w := newWorld(t, func(c *policy.Config) { c.Docs = docs })
		for form, header := range map[string]string{"JSON": "Accept: */*", "page": "Accept: text/html", "gRPC": "Content-Type: application/grpc"} {
			got := w.send(t, "GET", "/api/nothing", "", header)
			text, link := got.Body.String()+got.Header().Get("Grpc-Message"), ""
			if docs != "" {
				link = "<" + docs + `>; rel="service-doc"`
			}
			if !strings.Contains(text, "There is nothing here.") || strings.Contains(strings.ToLower(text), "documentation") != (docs != "") || !strings.Contains(text, docs) || got.Header().Get("Link") != link {
				t.Errorf("docs %q, %s: got %s with Link: %s", docs, form, text, got.Header().Get("Link"))
			}
		}
	}
}

// TestPageWithoutKeyLinksToTheDocs: a person who opens the API in a browser finds
// out how it is used, if the configuration says where.
func TestPageWithoutKeyLinksToTheDocs(t *testing.T) {
	t.Parallel()
	for docs, link := range map[string]string{"": "", "/docs": `<a href="/docs">Documentation of the API</a>`} {
		w := newWorld(t, func(c *policy.Config) { c.Docs = docs })
		got := w.send(t, "GET", convert, "", browser)
		if body := got.Body.String(); got.Code != http.StatusUnauthorized || strings.Contains(body, "Documentation") != (docs != "") || !strings.Contains(body, link) {
			t.Errorf("docs %q: got %d %s", docs, got.Code, body)
		}
	}
}
