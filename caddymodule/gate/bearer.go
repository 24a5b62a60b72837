package gate

import (
	"net/url"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// bearer reads the token of a request (RFC 6750, 2.1) from its fields
// Authorization and returns what the store knows it by. Tokens in the
// query string are refused rather than ignored (RFC 6750, 5.3): their
// sender should learn that they have just been written to every log on
// the way.
func bearer(fields []string, query string) (token.Hash, *Refusal) {
	if query != "" && carriesToken(query) {
		return token.Hash{}, refuseRequest
	}
	if len(fields) > 1 {
		return token.Hash{}, refuseRequest
	}
	if len(fields) == 0 {
		return token.Hash{}, refuseUnauthenticated
	}
	// Nearly all write the scheme so, and need no search for its end.
	credentials, ok := strings.CutPrefix(fields[0], "Bearer ")
	if !ok {
		var scheme string
		scheme, credentials, _ = strings.Cut(fields[0], " ")
		ok = strings.EqualFold(scheme, "Bearer")
	}
	credentials = strings.Trim(credentials, " ")
	if !ok || credentials == "" {
		return token.Hash{}, refuseUnauthenticated
	}
	hash, _, err := token.Parse(credentials)
	if err != nil {
		return token.Hash{}, refuseInvalidToken
	}
	return hash, nil
}

// carriesToken tells whether a query string has a parameter by which
// tokens are passed, however its name is written.
func carriesToken(query string) bool {
	for query != "" {
		var pair string
		pair, query = cutAny(query, "&;")
		name, _, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(name, "%+") {
			if plain, err := url.QueryUnescape(name); err == nil {
				name = plain
			}
		}
		if strings.EqualFold(name, "access_token") || strings.EqualFold(name, "api_key") {
			return true
		}
	}
	return false
}

// cutAny splits at the first of several separators. Not every server
// takes a semicolon for one, but some do.
func cutAny(s, separators string) (before, after string) {
	if i := strings.IndexAny(s, separators); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}
