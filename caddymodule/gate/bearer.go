package gate

import (
	"net/url"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// bearer reads the token of a request (RFC 6750, 2.1) from its
// Authorization fields and returns its hash. A token in the query string is
// refused and not ignored (RFC 6750, 5.3): the client should learn that
// every log on the way has it now.
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
	return parseBearer(fields[0])
}

// ownToken returns the first token of the gate in the Authorization fields, also
// of a request that bearer refuses. It may be revoked.
func ownToken(fields []string) (hash token.Hash, found bool) {
	for _, field := range fields {
		if hash, refusal := parseBearer(field); refusal == nil {
			return hash, true
		}
	}
	return token.Hash{}, false
}

// parseBearer reads the token of one Authorization field.
func parseBearer(field string) (token.Hash, *Refusal) {
	scheme, credentials, _ := strings.Cut(field, " ")
	credentials = strings.Trim(credentials, " ")
	if !strings.EqualFold(scheme, "Bearer") || credentials == "" {
		return token.Hash{}, refuseUnauthenticated
	}
	hash, _, err := token.Parse(credentials)
	if err != nil {
		return token.Hash{}, refuseInvalidToken
	}
	return hash, nil
}

// carriesToken tells whether a query string has a parameter for a token, in
// any spelling of its name.
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

// cutAny splits at the first of several separators: some servers split
// parameters at semicolons too.
func cutAny(s, separators string) (before, after string) {
	if i := strings.IndexAny(s, separators); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}
