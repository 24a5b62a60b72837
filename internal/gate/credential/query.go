package credential

import (
	"net/url"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// InQuery tells whether a query string has a parameter for a token, in any
// spelling of its name, such as apiKey and access-token, or a token of the
// gate under any name. Other names, such as key and token, can be parameters of
// the service.
func InQuery(query string) bool {
	for pair := range strings.FieldsFuncSeq(query, isSeparator) {
		name, value, _ := strings.Cut(pair, "=")
		name = unescaped(name)
		if spells(name, "accesstoken") || spells(name, "apikey") {
			return true
		}
		if _, err := token.Parse(unescaped(value)); err == nil {
			return true
		}
	}
	return false
}

// OverridesMethod tells whether a query string has the parameter _method, as PHP
// spells it too. Some frameworks, such as Symfony and method-override of Express,
// take it for the method of a POST.
func OverridesMethod(query string) bool {
	for pair := range strings.FieldsFuncSeq(query, isSeparator) {
		name, _, _ := strings.Cut(pair, "=")
		name = strings.TrimLeft(unescaped(name), " ")
		const word = "method"
		if len(name) > len(word) && strings.ContainsRune("_.[", rune(name[0])) && strings.EqualFold(name[1:1+len(word)], word) &&
			(len(name) == 1+len(word) || name[1+len(word)] == '[') {
			return true
		}
	}
	return false
}

// isSeparator recognises the end of a parameter. Some servers split at
// semicolons too.
func isSeparator(c rune) bool { return c == '&' || c == ';' }

// unescaped decodes a part of a query. It returns a malformed one as it is.
func unescaped(text string) string {
	if strings.ContainsAny(text, "%+") {
		if plain, err := url.QueryUnescape(text); err == nil {
			return plain
		}
	}
	return text
}

// spells tells whether a name is a word in lower case, in any case and with any
// dashes, dots and underscores.
func spells(name, word string) bool {
	for i := range len(name) {
		switch b := header.Lower(name[i]); {
		case b == '-':
		case word == "" || b != word[0]:
			return false
		default:
			word = word[1:]
		}
	}
	return word == ""
}
