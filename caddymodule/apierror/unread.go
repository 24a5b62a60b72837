package apierror

import (
	"io"
	"net/http"
	"strings"
)

// CloseUnread prepares the answer to a request whose body was not read to
// its end: on HTTP/1, the answer is the last one of its connection. It has
// to be called before the answer begins.
//
// Without it, net/http reads the rest of the body before it sends the
// answer, so that a client which announces a body and sends none, or waits
// for "100 Continue", would get a refusal only when a timeout ends the
// wait. HTTP/2 and HTTP/3 end a stream without such a wait, and have no
// header field Connection.
func CloseUnread(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return
	}
	w.Header().Set("Connection", "close")
	for {
		below, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = below.Unwrap()
	}
	// A MaxBytesReader whose limit is passed makes net/http wait a moment
	// between the answer and the end of the connection. A client that is
	// still writing a long body would otherwise get a reset, and on some
	// systems lose the answer by it.
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader(" ")), 0).Read(make([]byte, 1))
}
