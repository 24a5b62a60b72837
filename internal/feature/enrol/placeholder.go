package enrol

import (
	"errors"
	"regexp"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

var errPlaceholder = errors.New("the token is a placeholder, not a key: a reference such as ${NAME}, a template such as <key> or change-me, or one character repeated")

// placeholders match references and templates. Random keys in hex, base64 or
// base64url do not have the signs of these forms. Only base64url has
// underscores, so two of them must be around words of one case.
var placeholders = regexp.MustCompile(strings.Join([]string{
	`\$\{.*\}`, `\$\(.*\)`, `\{\{.*\}\}`, `<%.*%>`, // in any part of the token
	`^\$\w+$`, `^%\w+%$`, `^@@?\w+@@?$`, `^#\{.*\}#?$`, `^%[({].*[)}]s?$`,
	`^<.*>$`, `^\{([^0-9A-Fa-f-].*|.[^0-9A-Fa-f-].*)\}$`, `^\[.*\]$`, // an UUID can be in braces
	`^__([A-Z0-9_-]+|[a-z0-9_-]+)__$`, `^[A-Z]+(_[A-Z]+)+$`, // the last is the name of a variable
	`^[A-Za-z][A-Za-z0-9+.-]*://`, `^(arn|env|file|ssm|vault):`,
	`(?i)^(\w+\.)*(env|environ|getenv|lookup|secrets?|vault)(\[.*\]|\{.*\}|\(.*\))$`, `^process\.env\.`,
	`^@Microsoft\.`, `^ENC\[`,
	`(?i)^(your|insert|enter|todo)[-_.]|change[-_.]?me|replace[-_.]?(me|this|with)|(your|insert)[-_.]?(api|access|auth|secret)?[-_.]?(key|token|secret)`,
}, "|"))

// isPlaceholder tells whether a text is not a token, but is written in its place:
// a reference, a template, or one character repeated. Anyone could guess it. It
// also finds one behind a prefix.
func isPlaceholder(text string) bool {
	_, rest, _ := strings.Cut(text, "|")
	return placeholders.MatchString(text) || placeholders.MatchString(rest) || isRepeated(text) || isRepeated(separators.Replace(text))
}

// separators removes what separates words: an empty UUID is one character
// repeated.
var separators = strings.NewReplacer("-", "", "_", "", ".", "", ":", "", "|", "")

// isRepeated tells whether one character fills half of a token or more. It need
// not fill all: a real key can begin with zeros, and a placeholder with sk_live_.
func isRepeated(text string) bool {
	longest, run := 0, 0
	for i := range len(text) {
		if i > 0 && text[i] != text[i-1] {
			run = 0
		}
		run++
		longest = max(longest, run)
	}
	return 2*longest >= max(len(text), token.MinForeign)
}
