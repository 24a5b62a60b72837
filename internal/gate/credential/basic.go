package credential

import (
	"encoding/base64"
	"strings"
	"unicode"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// basic reads the scheme Basic (RFC 7617, 2): the token is the password, or the
// user name if the password is no token, as in GitHub's form. Two tokens of the
// gate are two tokens. With foreign keys, others can be tokens too. Malformed
// credentials are an invalid token: the field, because no token has a space.
func basic(p *policy.Policy) scheme {
	isToken := func(text string) bool { return p.IsOwn(text) || p.ForeignKeys && token.IsForeign(text) }
	return func(field string) (text, second string) {
		encoded := credentials(field, "Basic ")
		if encoded == "" {
			return "", ""
		}
		plain, err := base64.StdEncoding.DecodeString(encoded)
		both := string(plain)
		user, password, found := strings.Cut(both, ":")
		switch {
		case err != nil || !found || strings.ContainsFunc(both, unicode.IsControl):
			return field, ""
		case p.IsOwn(user) && p.IsOwn(password) && user != password:
			return password, user
		case password == "", p.IsOwn(user), isToken(user) && !isToken(password):
			return user, ""
		}
		return password, ""
	}
}
