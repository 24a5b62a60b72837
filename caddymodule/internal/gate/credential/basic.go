package credential

import (
	"cmp"
	"encoding/base64"
	"strings"
	"unicode"
)

// basic reads the scheme Basic (RFC 7617, 2): the token is the password, or the
// user name if there is no password. Malformed credentials are an invalid token:
// the field, because no token has a space.
func basic(field string) string {
	encoded := credentials(field, "Basic ")
	if encoded == "" {
		return ""
	}
	plain, err := base64.StdEncoding.DecodeString(encoded)
	text := string(plain)
	user, password, found := strings.Cut(text, ":")
	if err != nil || !found || strings.ContainsFunc(text, unicode.IsControl) {
		return field
	}
	return cmp.Or(password, user)
}
