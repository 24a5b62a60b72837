package apierror

import (
	"io"
	"net/http"
	"strings"
)

// CloseUnread prepares the answer to a request whose body is not read to
// its end: on HTTP/1, it closes the connection after the answer. Call it
// before the answer begins.
//
// Without it, net/http reads the rest of the body before it sends the
// answer. A client that announces a body and sends none, or waits for "100
// Continue", would get the answer only after a timeout. HTTP/2 and HTTP/3
// end a stream without such a wait, and have no header Connection.
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
	// A MaxBytesReader over its limit makes net/http wait a moment between
	// the answer and the end of the connection. Otherwise, a client that
	// still writes a long body would get a reset, and on some systems lose
	// the answer.
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader(" ")), 0).Read(make([]byte, 1))
}
