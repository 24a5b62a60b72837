package control_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// Services fetch the public keys: without the secret, whatever they
// accept, and from a cache for a few minutes. Nothing else is public.
func TestPublicKeys(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	ask := func(method, target, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		w := httptest.NewRecorder()
		g.handler.ServeHTTP(w, r)
		return w
	}
	for _, accept := range []string{"", "*/*", "application/json", "application/jwk-set+json", "text/html"} {
		w := ask(http.MethodGet, "/tollgate/jwks.json", accept)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != "application/jwk-set+json" || h.Get("Cache-Control") != "public, max-age=300" {
			t.Fatalf("%s: got %d, %v", accept, w.Code, h)
		}
		var set jose.JSONWebKeySet
		if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || len(set.Keys) != 1 || !set.Keys[0].IsPublic() || set.Keys[0].KeyID == "" {
			t.Errorf("%s: got %s, %v", accept, w.Body, err)
		}
	}
	for target, want := range map[string]int{
		"/tollgate/jwks.json/": 401, "/tollgate//jwks.json": 401, "/tollgate/../tollgate/jwks.json": 401, "/tollgate/jwks.json%00": 401, "/tollgate/plans": 401,
	} {
		if w := ask(http.MethodGet, target, ""); w.Code != want {
			t.Errorf("%s: got %d, want %d", target, w.Code, want)
		}
	}
	operation := documentOf(t, g.handler).Paths.Value("/tollgate/jwks.json").Get
	if security := operation.Security; security == nil || len(*security) != 1 || len((*security)[0]) != 0 ||
		operation.Responses.Value("200").Value.Content.Get("application/jwk-set+json") == nil {
		t.Errorf("documented as %v with %v", operation.Responses.Map(), security)
	}
	if w := ask(http.MethodPost, "/tollgate/jwks.json", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("POST: got %d", w.Code)
	}
}
