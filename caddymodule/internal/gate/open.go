package gate

import (
	"log/slog"
	"net/http"
)

// openAnswer owns the answer of a request without an account.
type openAnswer struct{ http.ResponseWriter }

func (o openAnswer) begun(int) { strip(o.Header()) }

// open passes a request on that needs no token. If the next handler has not
// answered, the gate does: with 400 if the client broke its body, and with
// 502, 503 or 504 after such an error of the next handler.
func (g *Gate) open(w http.ResponseWriter, r *http.Request, held headers, next Handler) error {
	f := held.forwarded(r)
	a := new(answer)
	a.start(w, openAnswer{w}, watchBody(f, r))
	defer a.end(0)
	err := next.ServeHTTP(a, f)
	if err == nil && !a.gone {
		g.outages.open.Worked()
		return nil
	}
	if a.status != 0 {
		return err
	}
	if fault := g.fault(a.body, err); fault != nil {
		return g.refuse(a, r, "", nil, fault)
	}
	status := g.Server.Status(err)
	refusal := unansweredOpen[status]
	if refusal == nil || g.PassErrors {
		return err
	}
	failed(g.outages.open, unquoted(err), slog.Int("status", status))
	return g.refuse(a, r, "", nil, refusal)
}
