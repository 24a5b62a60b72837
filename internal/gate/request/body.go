package request

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
)

// Body is a request body that notes whether the client broke it. Proxies
// report that as a failure of the service. A proxy's transport reads the
// body on its own goroutine.
type Body struct {
	io.ReadCloser
	request *http.Request
	end     atomic.Pointer[refusal.Refusal] // the first end of the body; nil before
}

// The ends of a body that are not the client's fault: it was read to its end,
// or the service closed it before.
var wholeBody, closedEarly = new(refusal.Refusal), new(refusal.Refusal)

// Read notes the end of the body.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.end.CompareAndSwap(nil, wholeBody)
	case err != nil:
		b.end.CompareAndSwap(nil, BodyFault(err))
	}
	return n, err
}

// Close notes the end of the body.
func (b *Body) Close() error {
	b.end.CompareAndSwap(nil, closedEarly)
	return b.ReadCloser.Close()
}

// Fault returns the refusal of a request whose body the client broke, and nil
// for any other. b may be nil.
func (b *Body) Fault() *refusal.Refusal {
	if b == nil {
		return nil
	}
	if end := b.end.Load(); end != wholeBody && end != closedEarly {
		return end
	}
	return nil
}

// CloseUnread prepares an answer that begins before the body was read to its
// end: the server closes the connection. Otherwise, Caddy could read the rest
// of the body as the next request: it replaces the body of a request, and
// net/http then does not notice that a proxy closed the body early.
func (b *Body) CloseUnread(w http.ResponseWriter) {
	if b != nil && b.end.Load() != wholeBody {
		apierror.CloseUnread(w, b.request)
	}
}

// BodyFault returns the refusal for an error of reading a body.
func BodyFault(err error) *refusal.Refusal {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return refusal.LongBody
	}
	return refusal.BrokenBody
}

// Buffered is the body of a request that the gate has read to its end.
type Buffered struct {
	*bytes.Reader
	text []byte
}

// Buffer returns a body with this text.
func Buffer(text []byte) *Buffered { return &Buffered{bytes.NewReader(text), text} }

// SetBody gives a request, whose body the gate has read, a body with that text.
func SetBody(r *http.Request, text []byte) {
	r.Body, r.ContentLength, r.TransferEncoding = Buffer(text), int64(len(text)), nil
}

// Close does nothing.
func (*Buffered) Close() error { return nil }

// Unread puts back what the gate has read of a body, until err if that is not
// nil.
func Unread(r *http.Request, read []byte, err error) {
	var rest io.Reader = r.Body
	if err != nil {
		rest = broken{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), rest), r.Body}
}

// broken is the end of a body that cannot be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
