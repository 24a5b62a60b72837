package gate

import (
	"log/slog"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/answer"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/request"
)

// openAnswer owns the answer of an open path.
type openAnswer struct{ http.ResponseWriter }

// Answered implements answer.Owner.
func (o openAnswer) Answered(int) { header.Strip(o.Header()) }

// passOn passes a request without an account on as f. If the next handler has
// not answered, the gate does: with 400 or 413 if the client broke its body,
// and with 502, 503 or 504 after such an error. Other errors go on to the
// server.
func (g *Gate) passOn(w http.ResponseWriter, r, f *http.Request, owner answer.Owner, next Handler) error {
	g.Server.Mark(r).requestID = g.Server.RequestID(r, true)
	a := &answer.Writer{ResponseWriter: w, Owner: owner, Body: request.Watch(f, r)}
	defer a.End(0) // the handler wrote nothing, or panicked
	err := next.ServeHTTP(a, f)
	_, open := owner.(openAnswer)
	log := g.outages.login
	if open {
		log = g.outages.open
	}
	if err == nil && !a.Gone {
		log.Worked()
		return nil
	}
	if a.Status != 0 {
		return err
	}
	status := g.Server.Status(err)
	if !open && status == http.StatusUnauthorized {
		a.Begin(status) // an error route will write the answer to a wrong password
	}
	if fault := g.bodyFault(a.Body, err); fault != nil {
		return g.refuse(a, r, "", nil, fault)
	}
	refused := refusal.Unanswered(status, open)
	if refused == nil || open && g.PassErrors {
		return err
	}
	logFailure(log, unquoted(err), slog.Int("status", status))
	if g.PassErrors {
		a.Begin(status) // the owner counts a login
		return err
	}
	return g.refuse(a, r, "", nil, refused)
}
