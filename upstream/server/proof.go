package server

import (
	"crypto/hmac"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control"
)

var forbidden = apierror.New(http.StatusForbidden, "forbidden",
	"This service answers through its gate only.")

// requireProof lets requests through that carry the gate's proof, exactly
// once. Whoever reaches the upstream around the gate would otherwise have
// the API without a token, a quota or a login throttle.
func requireProof(secret string, next http.Handler) http.Handler {
	want := []byte(control.Proof(secret))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Values(control.ProofHeader)
		// Both have the same length when they are equal, and a length is
		// no secret: it is in the documentation.
		if len(got) != 1 || !hmac.Equal([]byte(got[0]), want) {
			send(w, forbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
