package gate

import (
	"io"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// beginner learns that an answer begins, while its headers can still be
// changed.
type beginner interface {
	// begin is called before the final answer, with its status, and again
	// during the answer.
	begin(status int)
	// interim is called before an answer with a status 1xx.
	interim()
}

// beginning is the ResponseWriter of a beginner.
type beginning struct {
	http.ResponseWriter
	of beginner
}

// Unwrap gives http.ResponseController the writer below.
func (b *beginning) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// WriteHeader sees the status of the final answer.
func (b *beginning) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		b.of.begin(status)
	} else {
		b.of.interim()
	}
	b.ResponseWriter.WriteHeader(status)
}

// Write answers 200 if there is no status yet.
func (b *beginning) Write(p []byte) (int, error) {
	b.of.begin(http.StatusOK)
	return b.ResponseWriter.Write(p)
}

// ReadFrom lets the writer below copy the body in its fastest way.
func (b *beginning) ReadFrom(r io.Reader) (int64, error) {
	b.of.begin(http.StatusOK)
	return io.Copy(b.ResponseWriter, r)
}

// FlushError sends the headers, so it completes them first.
func (b *beginning) FlushError() error {
	b.of.begin(http.StatusOK)
	return http.NewResponseController(b.ResponseWriter).Flush()
}

// answer is the ResponseWriter of a request that the gate passes. It tells
// its owner the status of the final answer before the client can read it,
// when the headers of the upstream are set and can still be changed.
type answer struct {
	beginning
	owner  owner // nil if shadow passes the request unchanged
	body   *body // of the request if the gate watches it, or nil
	status int   // of the final answer; 0 before
	gone   bool  // the server reported a closed connection; see WriteHeader
}

// owner of an answer.
type owner interface {
	// begun tells the status of the final answer, once: 0 if the handler
	// has not answered.
	begun(status int)
}

// start begins to watch an answer.
func (a *answer) start(w http.ResponseWriter, owner owner, body *body) {
	*a = answer{beginning: beginning{w, a}, owner: owner, body: body}
}

// begin notes the first final status. An answer to a request whose body was
// not read to its end closes the connection. Otherwise, Caddy could read the
// rest of the body as the next request: it replaces the body of a request, and
// net/http then does not notice that a proxy closed the body early.
func (a *answer) begin(status int) {
	if a.status != 0 {
		return
	}
	a.status = status
	if a.owner != nil {
		a.owner.begun(status)
	}
	if a.body != nil && !a.body.isWhole() {
		apierror.CloseUnread(a.ResponseWriter, a.body.request)
	}
}

// end completes an answer whose handler has returned or panicked. It removes
// the gate's headers again: the handler may have set trailers after the body.
func (a *answer) end(otherwise int) {
	a.begin(otherwise)
	strip(a.Header())
}

// interim removes the gate's headers from an answer with a status 1xx.
func (a *answer) interim() {
	if a.owner != nil {
		strip(a.Header())
	}
}

// WriteHeader sees the status of the final answer.
//
// net/http ends the context of a request if it cannot read the connection.
// Caddy's proxy then answers 499, as if the client were gone. A client that
// broke its body may wait for the answer, so the gate answers it.
func (a *answer) WriteHeader(status int) {
	if status == statusClientGone && a.owner != nil && a.body.fault() != nil {
		a.gone = true
		return
	}
	a.beginning.WriteHeader(status)
}
