package credential

import (
	"net/http"
	"net/textproto"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// tokenHeader is a header whose value is a token.
type tokenHeader string

func (name tokenHeader) token(r Request, position int, _ bool) (string, bool) {
	values := r.Header[string(name)]
	if position >= len(values) {
		return "", false
	}
	return textproto.TrimString(values[position]), true
}

func (name tokenHeader) remove(h http.Header, _ *policy.Endpoint) { delete(h, string(name)) }
