package admin

import (
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

const keySetPath = "/tollgate/jwks.json"

// serveKeySet adds the public keys. Libraries that fetch a key set send all
// kinds of Accept headers, so this operation ignores them: huma describes
// it, but does not serve it.
func (s *server) serveKeySet(mux *http.ServeMux, router huma.API) {
	describe(router, huma.Operation{
		OperationID: "get-public-keys", Method: http.MethodGet, Path: keySetPath, Tags: []string{"plans"},
		Summary:     "Show the public keys that a service verifies " + assertion.Header + " with",
		Description: "A JWK Set (RFC 7517). The control listener serves it without the secret.",
		Security:    []map[string][]string{{}},    // without the secret as well
		Errors:      []int{http.StatusBadRequest}, // an invalid Tollgate-Actor
	}, &huma.Response{Description: "OK", Content: contentOf[assertion.KeySet](router, assertion.KeySetType)})
	delete(router.OpenAPI().Paths[keySetPath].Get.Responses, "406") // added to every operation
	mux.HandleFunc("GET "+keySetPath, func(w http.ResponseWriter, r *http.Request) {
		apierror.CloseUnread(w, r)
		text, err := json.Marshal(s.backend.PublicKeys())
		if err != nil {
			panic("control: encoding the public keys: " + err.Error()) // strings always encode
		}
		w.Header().Set("Content-Type", assertion.KeySetType)
		w.Header().Set("Cache-Control", "public, max-age=300")
		// The client is gone if this fails; ignore the error.
		_, _ = w.Write(text)
	})
}
