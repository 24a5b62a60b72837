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

// public has the paths that need no secret for GET and HEAD.
var public = map[string]bool{
	livePath:   true,
	readyPath:  true,
	keySetPath: true,
}

// isPublic compares the path as the client sent it, so that no escaped path
// is public.
func isPublic(r *http.Request) bool {
	return public[r.URL.EscapedPath()] && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// RequireSecret passes requests for public paths, and requests with one of
// the secrets as a Bearer token (RFC 6750), to next. It compares digests in
// constant time: the time reveals neither a secret nor its length. An empty
// secret opens nothing.
func RequireSecret(next http.Handler, secrets ...string) http.Handler {
	var wanted [][sha256.Size]byte
	for _, secret := range secrets {
		if secret != "" {
			wanted = append(wanted, sha256.Sum256([]byte(secret)))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPublic(r) {
			next.ServeHTTP(w, r)
			return
		}
		got, same := sha256.Sum256([]byte(bearer(r))), 0
		for _, want := range wanted {
			same |= subtle.ConstantTimeCompare(got[:], want[:])
		}
		if same != 1 {
			apierror.CloseUnread(w, r)
			// The client is gone if this fails; ignore the error.
			_ = errUnauthenticated.Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer returns the Bearer token of a request, or "" unless it has exactly
// one Authorization field.
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
