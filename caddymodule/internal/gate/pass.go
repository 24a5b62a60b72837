package gate

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/answer"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/request"
)

// openAnswer owns the answer of an open path.
type openAnswer struct{ http.ResponseWriter }

// Answered implements answer.Owner.
func (o openAnswer) Answered(int) { header.Strip(o.Header()) }

// pass passes a request without a call on. Its answers and errors are those of
// the site. The headers that a client must not set stay removed, also in mode
// shadow, whose answers have no owner: an identity, another target, and another
// version of HTTP within the connection. A second gate may find that the request
// is a login.
func pass(w http.ResponseWriter, r *http.Request, facts request.Facts, owner answer.Owner, next Handler) error {
	a := &answer.Writer{ResponseWriter: w, Owner: owner}
	a.Passage.Begin(r, facts, nil)
	defer a.End(0) // the server answers if the handler has not
	return next.ServeHTTP(a, r)
}
