package gate

import (
	"io"
	"net/http"

	"go.uber.org/zap"
)

// open passes a request on that needs no token. Where the next handler
// fails with 502, 503 or 504 and has answered nothing, the gate answers:
// a person gets a page and a program gets JSON, as at endpoints.
func (g *Gate) open(w http.ResponseWriter, r *http.Request, next Handler) error {
	if g.PassErrors {
		return next.ServeHTTP(w, r)
	}
	a := &openAnswer{ResponseWriter: w}
	err := next.ServeHTTP(a, r)
	if err == nil || a.begun {
		return err
	}
	status := g.Server.Status(err)
	refusal := unanswered(status)
	if refusal == nil {
		return err
	}
	g.Logger.Error("calling the upstream outside endpoints", zap.Int("status", status), zap.Error(err))
	return g.refuse(w, r, nil, refusal)
}

// openAnswer is the ResponseWriter of a request that needs no token: it
// notices when the answer begins.
type openAnswer struct {
	http.ResponseWriter
	begun bool
}

// Unwrap gives http.ResponseController the writer below.
func (a *openAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader begins the answer, unless the status is informational.
func (a *openAnswer) WriteHeader(status int) {
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
