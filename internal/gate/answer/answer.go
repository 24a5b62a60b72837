// Package answer watches the answers of the handlers behind the gate, and
// completes their headers: trailers, caches and CORS.
package answer

import (
	"io"
	"net/http"

	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/gate/tell"
)

// StatusClientGone is the status of a request whose client has left before the
// answer. It says nothing about the service. Caddy's proxy uses it too.
const StatusClientGone = 499

// Owner of an answer.
type Owner interface {
	// Answered is called before the final answer, with its status, while its
	// headers can still be changed: once, or with 0 if the handler has not
	// answered.
	Answered(status int)
}

// Writer is the ResponseWriter of a request that the gate passes. It tells its
// owner when the answer begins.
type Writer struct {
	http.ResponseWriter
	// Owner is nil if mode shadow passes the request unchanged.
	Owner Owner
	// Passage is that of the request.
	Passage request.Passage
	// Status is that of the final answer; 0 before.
	Status int
	// Scanner reads the body after the client, or after that has left. It may be nil.
	Scanner *tell.Scanner
	// AnswersBroken tells that the owner answers a client that broke its body,
	// see WriteHeader.
	AnswersBroken bool
}

// Begin notes the first final status.
func (w *Writer) Begin(status int) {
	if w.Status != 0 {
		return
	}
	w.Status = status
	w.Passage.End(false)
	if w.Owner != nil {
		w.Owner.Answered(status)
	}
	w.Passage.Body.CloseUnread(w.ResponseWriter)
}

// ClientGone tells whether the client of the request has left. It answers 499
// if there is no answer yet, unless the client broke its body, see WriteHeader.
//
// The server has then ended the context of the request. The error of a proxy
// does not tell it: over HTTP/3, it is that of QUIC, such as "Application error
// 0x0 (remote)" or a timeout.
func (w *Writer) ClientGone(r *http.Request) bool {
	if w.Status == 0 && r.Context().Err() != nil && w.Passage.Body.Fault() == nil {
		w.WriteHeader(StatusClientGone)
	}
	return w.Status == StatusClientGone
}

// End completes an answer whose handler has returned or panicked. It removes
// the gate's headers again: the handler may have set trailers after the body.
func (w *Writer) End(status int) {
	w.Begin(status)
	w.Passage.End(true)
	if w.Owner != nil {
		header.Strip(w.Header())
	}
}

// Unwrap gives http.ResponseController the writer below.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sees the status of the final answer.
//
// net/http ends the context of a request if it cannot read the connection.
// Caddy's proxy then answers 499, as if the client were gone. A client that
// broke its body may wait for the answer, so the gate answers it.
func (w *Writer) WriteHeader(status int) {
	switch {
	case status == StatusClientGone && w.AnswersBroken && w.Passage.Body.Fault() != nil:
		return
	case status >= 200 || status == http.StatusSwitchingProtocols:
		w.Begin(status)
	case w.Owner != nil:
		header.Strip(w.Header())
		if cors, ok := w.Owner.(*CORS); ok {
			cors.setHeader()
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write answers 200 if there is no status yet.
func (w *Writer) Write(p []byte) (int, error) {
	w.Begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	if w.Scanner != nil {
		w.Scanner.Read(p)
	}
	return n, err
}

// ReadFrom lets the writer below copy the body in its fastest way, unless there is
// a Scanner.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	w.Begin(http.StatusOK)
	if w.Scanner != nil {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	return io.Copy(w.ResponseWriter, r)
}

// FlushError sends the headers, so it completes them first.
func (w *Writer) FlushError() error {
	w.Begin(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}
