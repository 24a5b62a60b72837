package gate

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// body is the body of an admitted call: it knows whether the client's
// part of it broke off. A proxy's transport reads it on a goroutine of
// its own.
type body struct {
	io.ReadCloser
	broken atomic.Bool
}

// Read notes how reading ends. Reading on after the server has closed the
// body is no fault of the client's.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.broken.Store(true)
	}
	return n, err
}
