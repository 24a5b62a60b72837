package admin

import (
	"encoding/json"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// serveKeySet adds the public keys. Libraries that fetch a key set send all
// kinds of Accept headers, so this operation ignores them: huma describes
// it, but does not serve it.
func (s *Server) serveKeySet() {
	Describe(s, api.GetPublicKeys, Described{
		Out: []string{assertion.KeySetType}, OutText: "OK", Serve: s.keySet,
		Security: []map[string][]string{{}},    // without the secret as well
		Errors:   []int{http.StatusBadRequest}, // an invalid Tollgate-Actor
	})
	delete(s.router.OpenAPI().Paths[api.GetPublicKeys.Path].Get.Responses, "406") // added to every operation
}

func (s *Server) keySet(w http.ResponseWriter, r *http.Request) {
	apierror.CloseUnread(w, r)
	text, err := json.Marshal(s.Backend.PublicKeys())
	if err != nil {
		panic("admin: encoding the public keys: " + err.Error()) // strings always encode
	}
	w.Header().Set("Content-Type", assertion.KeySetType)
	w.Header().Set("Cache-Control", "public, max-age=300")
	// The client is gone if this fails; ignore the error.
	_, _ = w.Write(text)
}
