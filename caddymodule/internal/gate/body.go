package gate

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// Refusals of a request whose body the client broke. Their calls are never
// given back.
var (
	refuseBrokenBody = fixed(http.StatusBadRequest, "invalid_request", "The request body cannot be read: it is malformed, incomplete or too slow.", Malformed)
	refuseLongBody   = fixed(http.StatusRequestEntityTooLarge, "body_too_large", "The request body is too large.", Malformed)

	// readWhole marks a body that was read to its end, closedEarly a body
	// that the upstream closed before: later errors are not the client's.
	readWhole   = &Refusal{}
	closedEarly = &Refusal{}
)

// body is a request body that notes whether the client broke it. Proxies
// report that as a failure of the upstream. A proxy's transport reads the
// body on its own goroutine.
type body struct {
	request *http.Request
	end     atomic.Pointer[Refusal] // the first end of the body; nil before

	// of is the request in front of the gate. Its body is opened at the first
	// read: until then, Caddy's placeholder {http.request.body} may read it and
	// put another one in its place.
	of      *http.Request
	opening sync.Once
	from    io.ReadCloser
}

// watchBody replaces the body of f, the request for the service that was made of
// r. It returns nil for a request without a body, and for one whose body the
// gate has read. Some servers also wrap the body of a request without one.
func watchBody(f, r *http.Request) *body {
	if _, read := f.Body.(readBody); read || f.Body == nil || f.ContentLength == 0 {
		return nil
	}
	b := &body{request: f, of: r}
	f.Body = b
	return b
}

func (b *body) open() io.ReadCloser {
	b.opening.Do(func() { b.from = b.of.Body })
	return b.from
}

// Read notes the end of the body.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.open().Read(p)
	if err != nil {
		b.end.CompareAndSwap(nil, readFault(err))
	}
	return n, err
}

// Close notes the end of the body.
func (b *body) Close() error {
	b.end.CompareAndSwap(nil, closedEarly)
	return b.open().Close()
}

// fault returns the refusal of a request whose body the client broke, and
// nil for any other.
func (b *body) fault() *Refusal {
	if b == nil {
		return nil
	}
	if end := b.end.Load(); end != readWhole && end != closedEarly {
		return end
	}
	return nil
}

// isWhole reports whether the body was read to its end.
func (b *body) isWhole() bool { return b.end.Load() == readWhole }

// fault returns the refusal of a request whose body was broken or too long
// for the next handler, which ended with err; nil for any other.
func (g *Gate) fault(b *body, err error) *Refusal {
	if fault := b.fault(); fault != nil {
		return fault
	}
	if err != nil && g.Server.Status(err) == http.StatusRequestEntityTooLarge {
		return refuseLongBody
	}
	return nil
}

func readFault(err error) *Refusal {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		return readWhole
	case errors.As(err, &tooLarge):
		return refuseLongBody
	}
	return refuseBrokenBody
}
