package gate

import (
	"log/slog"
	"net/http"

	"github.com/caddy-tollgate/tollgate/internal/gate/answer"
	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
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
//
// A service that does not answer is in the gate's log: Caddy logs an error that
// the site answers only for debugging.
func (g *Gate) pass(w http.ResponseWriter, r *http.Request, facts request.Facts, owner answer.Owner, next Handler) error {
	a := &answer.Writer{ResponseWriter: w, Owner: owner}
	a.Passage.Begin(r, facts, request.Connection)
	defer a.End(0) // the server answers if the handler has not
	err := next.ServeHTTP(a, r)
	switch {
	case a.ClientGone(r):
		return nil
	case err == nil:
		g.outages.open.Worked()
	case a.Status == 0 && a.Passage.Body.Fault() == nil:
		if status := g.Server.Status(err); refusal.Unanswered(status) != nil {
			logFailure(g.outages.open, unquoted(err), slog.Int("status", status))
		}
	}
	return err
}
