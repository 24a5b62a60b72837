package admin_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

// Services fetch the public keys: without the secret, whatever they
// accept, and from a cache for a few minutes.
func TestPublicKeys(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	for _, accept := range []string{"", "*/*", "application/json", "application/jwk-set+json", "text/html"} {
		r := httptest.NewRequest(http.MethodGet, "/tollgate/jwks.json", nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		w := httptest.NewRecorder()
		g.Handled.ServeHTTP(w, r)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != "application/jwk-set+json" || h.Get("Cache-Control") != "public, max-age=300" {
			t.Fatalf("%s: got %d, %v", accept, w.Code, h)
		}
		var set jose.JSONWebKeySet
		if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || len(set.Keys) != 1 || !set.Keys[0].IsPublic() || set.Keys[0].KeyID == "" {
			t.Errorf("%s: got %s, %v", accept, w.Body, err)
		}
	}
	operation := controltest.DocumentOf(t, g.Handled).Paths.Value("/tollgate/jwks.json").Get
	if security := operation.Security; security == nil || len(*security) != 1 || len((*security)[0]) != 0 ||
		operation.Responses.Value("200").Value.Content.Get("application/jwk-set+json") == nil {
		t.Errorf("documented as %v with %v", operation.Responses.Map(), security)
	}
}
