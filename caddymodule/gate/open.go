package gate

import (
	"log/slog"
	"net/http"
)

// open passes a request on that needs no token. Where the next handler has
// answered nothing, the gate answers for it: with 400 if the client broke
// its body, and with 502, 503 or 504 if the next handler failed so. A
// person gets a page and a program gets JSON, as at endpoints.
func (g *Gate) open(w http.ResponseWriter, r *http.Request, next Handler) error {
	a := &unmetered{ResponseWriter: w, body: watchBody(r)}
	defer a.end()
	err := next.ServeHTTP(a, r)
	if err == nil && !a.gone {
		g.outages.open.Worked()
		return nil
	}
	if a.begun {
		return err
	}
	if fault := g.fault(a.body, err); fault != nil {
		return g.refuse(a, r, nil, fault)
	}
	status := g.Server.Status(err)
	refusal := unansweredOpen[status]
	if refusal == nil || g.PassErrors {
		return err
	}
	failed(g.outages.open, err, slog.Int("status", status))
	return g.refuse(a, r, nil, refusal)
}
