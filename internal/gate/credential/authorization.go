package credential

import (
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// authorization is the header Authorization. A field of an unknown scheme has
// an empty token. At an endpoint that keeps the header, a field is the
// service's own if there is a token elsewhere and none of the gate in it.
type authorization struct {
	schemes []scheme
	policy  *policy.Policy
}

// scheme reads the token of a field, and a second one if it has two. It returns
// "" for another scheme.
type scheme func(field string) (text, second string)

func (a authorization) token(r Request, position int, elsewhere bool) (string, bool) {
	for _, field := range r.Facts.Authorization {
		var text, second string
		for _, scheme := range a.schemes {
			if text, second = scheme(field); text != "" {
				break
			}
		}
		if elsewhere && r.Endpoint.KeepAuthorization && !a.policy.IsOwn(text) {
			continue
		}
		if position == 0 {
			return text, true
		}
		position--
		if second != "" && position == 0 {
			return second, true
		}
		if second != "" {
			position--
		}
	}
	return "", false
}

func (authorization) remove(h http.Header, e *policy.Endpoint) {
	if e == nil || !e.KeepAuthorization {
		delete(h, "Authorization")
	}
}

// bearer reads the scheme Bearer (RFC 6750, 2.1).
func bearer(field string) (text, second string) { return credentials(field, "Bearer "), "" }

// credentials returns what is behind a scheme and its space, or "" if the field
// has another scheme.
func credentials(field, scheme string) string {
	// Most clients write the usual case, which is fast to compare.
	if !strings.HasPrefix(field, scheme) && (len(field) < len(scheme) || !strings.EqualFold(field[:len(scheme)], scheme)) {
		return ""
	}
	return strings.Trim(field[len(scheme):], " ")
}
