package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

var errUnauthenticated = apierror.New(http.StatusUnauthorized, "unauthenticated", "The control API needs the gate's secret as a Bearer token.").
	WithHeader("WWW-Authenticate", `Bearer realm="tollgate"`)

// withoutSecret has the paths that need no secret for GET and HEAD.
var withoutSecret = map[string]bool{
	api.GetLiveness.Path:   true,
	api.GetReadiness.Path:  true,
	api.GetPublicKeys.Path: true,
}

// isPublic compares the path as the client sent it, so that no escaped path
// is public.
func isPublic(r *http.Request) bool {
	return withoutSecret[r.URL.EscapedPath()] && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// RequireSecret passes requests for public paths, and requests with one of
// the secrets as a Bearer token (RFC 6750), to next. An empty secret opens
// nothing.
func RequireSecret(next http.Handler, secrets ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isPublic(r) && !HaveCommon(secrets, []string{Bearer(r)}) {
			Send(w, r, errUnauthenticated)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// HaveCommon tells whether a text that a client sent is one of the secrets. It
// compares digests in constant time: the time reveals neither a secret nor its
// length. An empty secret is none.
func HaveCommon(secrets, sent []string) bool {
	same := 0
	for _, secret := range secrets {
		want := sha256.Sum256([]byte(secret))
		for _, text := range sent {
			got := sha256.Sum256([]byte(text))
			if secret != "" {
				same |= subtle.ConstantTimeCompare(got[:], want[:])
			}
		}
	}
	return same == 1
}

// Bearer returns the Bearer token of a request, or "" unless it has exactly
// one Authorization field.
func Bearer(r *http.Request) string {
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
