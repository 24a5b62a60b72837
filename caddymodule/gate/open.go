package gate

import (
	"io"
	"log/slog"
	"net/http"
)

// open passes a request on that needs no token. Where the next handler has
// answered nothing, the gate answers for it: with 400 if the client broke
// its body, and with 502, 503 or 504 if the next handler failed so. A
// person gets a page and a program gets JSON, as at endpoints.
func (g *Gate) open(w http.ResponseWriter, r *http.Request, next Handler) error {
	a := &openAnswer{ResponseWriter: w, body: watchBody(r)}
	err := next.ServeHTTP(a, r)
	if a.begun {
		return err
	}
	if fault := a.body.fault(); fault != nil && (err != nil || a.gone) {
		return g.refuse(w, r, nil, fault)
	}
	if err == nil {
		g.outages.open.Worked()
		return nil
	}
	status := g.Server.Status(err)
	refusal := unanswered(status)
	if refusal == nil || g.PassErrors {
		return err
	}
	failed(g.outages.open, err, slog.Int("status", status))
	return g.refuse(w, r, nil, refusal)
}

// openAnswer is the ResponseWriter of a request that needs no token: it
// notices when the answer begins.
type openAnswer struct {
	http.ResponseWriter
	body  *body
	begun bool
	gone  bool // the server took the client for gone, for its broken body
}

// Unwrap gives http.ResponseController the writer below.
func (a *openAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader begins the answer, unless the status is informational. A
// client that broke its body is there, and gets a refusal instead of 499.
func (a *openAnswer) WriteHeader(status int) {
	if status == statusClientGone && a.body.fault() != nil {
		a.gone = true
		return
	}
	a.begun = a.begun || status >= 200 || status == http.StatusSwitchingProtocols
	a.ResponseWriter.WriteHeader(status)
}

// Write begins the answer.
func (a *openAnswer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// ReadFrom lets the writer below take the body by its fastest way.
func (a *openAnswer) ReadFrom(r io.Reader) (int64, error) {
	a.begun = true
	return io.Copy(a.ResponseWriter, r)
}

// FlushError begins the answer.
func (a *openAnswer) FlushError() error {
	a.begun = true
	return http.NewResponseController(a.ResponseWriter).Flush()
}
