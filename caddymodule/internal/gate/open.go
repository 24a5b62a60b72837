package gate

import (
	"log/slog"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/answer"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
)

// openAnswer owns the answer of a request without an account.
type openAnswer struct{ http.ResponseWriter }

// Answered implements answer.Owner.
func (o openAnswer) Answered(int) { header.Strip(o.Header()) }

// open passes a request on that needs no token.
func (g *Gate) open(w http.ResponseWriter, r *http.Request, facts request.Facts, next Handler) error {
	f := facts.Forwarded(r)
	a := new(answer.Writer)
	a.Start(w, openAnswer{w}, request.Watch(f, r))
	defer a.End(0)
	err := next.ServeHTTP(a, f)
	if err == nil && !a.Gone {
		g.outages.open.Worked()
		return nil
	}
	if a.Status != 0 {
		return err
	}
	return g.unanswered(a, r, err, g.outages.open, true)
}

// unanswered answers for a next handler that has not answered a request without
// an account: with 400 or 413 if the client broke its body, and with 502, 503 or
// 504 after such an error. Other errors go on to the server.
func (g *Gate) unanswered(a *answer.Writer, r *http.Request, err error, log *outage.Log, open bool) error {
	if fault := g.bodyFault(a.Body, err); fault != nil {
		return g.refuse(a, r, "", nil, fault)
	}
	status := g.Server.Status(err)
	f := refusal.Unanswered(status, open)
	if f != nil && !(open && g.PassErrors) {
		logFailure(log, unquoted(err), slog.Int("status", status))
	}
	if f == nil || g.PassErrors {
		return err
	}
	return g.refuse(a, r, "", nil, f)
}
