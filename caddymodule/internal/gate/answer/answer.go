// Package answer watches the answers of the handlers behind the gate, and
// completes their headers: trailers, caches and CORS.
package answer

import (
	"io"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/gate/request"
)

// StatusClientGone is the status of Caddy's proxy if the client has closed
// the connection. It says nothing about the service.
const StatusClientGone = 499

// hooks are called while the headers of an answer can still be changed.
type hooks interface {
	// Begin is called before the final answer, with its status, and again
	// during the answer.
	Begin(status int)
	// interim is called before an answer with a status 1xx.
	interim()
}

// hooked is a ResponseWriter with hooks.
type hooked struct {
	http.ResponseWriter
	hooks hooks
}

// Unwrap gives http.ResponseController the writer below.
func (w *hooked) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sees the status of the final answer.
func (w *hooked) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.hooks.Begin(status)
	} else {
		w.hooks.interim()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write answers 200 if there is no status yet.
func (w *hooked) Write(p []byte) (int, error) {
	w.hooks.Begin(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// ReadFrom lets the writer below copy the body in its fastest way.
func (w *hooked) ReadFrom(r io.Reader) (int64, error) {
	w.hooks.Begin(http.StatusOK)
	return io.Copy(w.ResponseWriter, r)
}

// FlushError sends the headers, so it completes them first.
func (w *hooked) FlushError() error {
	w.hooks.Begin(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Writer is the ResponseWriter of a request that the gate passes. It tells
// its owner the status of the final answer before the client can read it,
// when the headers of the service are set and can still be changed.
type Writer struct {
	hooked
	// Body is that of the request if the gate watches it, or nil.
	Body *request.Body
	// Status is that of the final answer; 0 before.
	Status int
	// Gone tells that the server reported a closed connection, see WriteHeader.
	Gone bool

	owner Owner // nil if mode shadow passes the request unchanged
}

// Owner of an answer.
type Owner interface {
	// Answered tells the status of the final answer, once: 0 if the handler
	// has not answered.
	Answered(status int)
}

// Start begins to watch an answer. Without an owner, the answer does not
// change.
func (w *Writer) Start(to http.ResponseWriter, owner Owner, body *request.Body) {
	*w = Writer{hooked: hooked{to, w}, owner: owner, Body: body}
}

// Begin notes the first final status.
func (w *Writer) Begin(status int) {
	if w.Status != 0 {
		return
	}
	w.Status = status
	if w.owner != nil {
		w.owner.Answered(status)
	}
	w.Body.CloseUnread(w.ResponseWriter)
}

// End completes an answer whose handler has returned or panicked. It removes
// the gate's headers again: the handler may have set trailers after the body.
func (w *Writer) End(status int) {
	w.Begin(status)
	header.Strip(w.Header())
}

// interim removes the gate's headers from an answer with a status 1xx.
func (w *Writer) interim() {
	if w.owner != nil {
		header.Strip(w.Header())
	}
}

// WriteHeader sees the status of the final answer.
//
// net/http ends the context of a request if it cannot read the connection.
// Caddy's proxy then answers 499, as if the client were gone. A client that
// broke its body may wait for the answer, so the gate answers it.
func (w *Writer) WriteHeader(status int) {
	if status == StatusClientGone && w.owner != nil && w.Body.Fault() != nil {
		w.Gone = true
		return
	}
	w.hooked.WriteHeader(status)
}
