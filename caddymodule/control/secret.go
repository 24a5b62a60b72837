package control

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

var errUnauthenticated = apierror.New(http.StatusUnauthorized, "unauthenticated", "The control API needs the gate's secret as a Bearer token.").
	WithHeader("WWW-Authenticate", `Bearer realm="tollgate"`)

// public are the paths that need no secret.
var public = map[string]bool{keySetPath: true}

// RequireSecret lets only requests through that carry the secret as a
// Bearer token (RFC 6750). Digests are compared, in constant time, so
// that neither the secret's text nor its length can be measured. An empty
// secret lets nobody through. What is public needs none.
func RequireSecret(secret string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(secret))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if public[r.URL.Path] {
			next.ServeHTTP(w, r)
			return
		}
		got := sha256.Sum256([]byte(bearer(r)))
		if secret == "" || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			// Nobody is left to tell when this fails: the client is gone.
			_ = errUnauthenticated.Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer returns the token of a request with exactly one Authorization
// field, or "".
func bearer(r *http.Request) string {
	fields := r.Header.Values("Authorization")
	if len(fields) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(fields[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
