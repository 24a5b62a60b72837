package apierror

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// exchange is a request that was admitted: its body is read already, and
// its refusal may have another status than huma thinks.
type exchange struct {
	request
	body   []byte
	status int
}

// Unwrap returns the context underneath, as humago.Unwrap wants it.
func (x *exchange) Unwrap() huma.Context { return x.request }

// BodyReader returns the body from its beginning.
func (x *exchange) BodyReader() io.Reader { return bytes.NewReader(x.body) }

// SetStatus sends the status of the refusal if there is one.
func (x *exchange) SetStatus(status int) {
	if x.status != 0 {
		status = x.status
	}
	x.request.SetStatus(status)
}

// exchangeOf finds the exchange below what other middleware wrapped
// around it.
func exchangeOf(ctx huma.Context) *exchange {
	for {
		if x, ok := ctx.(*exchange); ok {
			return x
		}
		outer, ok := ctx.(interface{ Unwrap() huma.Context })
		if !ok {
			return nil
		}
		ctx = outer.Unwrap()
	}
}

// admit refuses a request for what huma would let pass or would refuse in
// its own way: an Accept header that excludes the answer, an ambiguous
// query, a body of another media type, a body that is too long or cannot
// be read.
func admit(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	x := &exchange{request: Negotiated(ctx)}
	op := ctx.Operation()
	if op.RequestBody == nil {
		CloseUnread(w, r)
	}
	refused := Negotiate(r.Header)
	if refused == nil {
		refused = checkQuery(ctx)
	}
	if refused == nil && op.RequestBody != nil {
		if refused = checkMediaType(r.Header); refused == nil {
			x.body, refused = readBody(ctx.BodyReader(), op.MaxBodyBytes-1)
		}
	}
	if refused == nil {
		next(x)
		return
	}
	CloseUnread(w, r)
	// The client is gone if this fails; ignore the error.
	_ = refused.Write(w)
}

func invalid(message string) *Error { return New(http.StatusBadRequest, "invalid_request", message) }

// checkQuery refuses a query that gate and upstream could read in two
// ways.
func checkQuery(ctx huma.Context) *Error {
	u := ctx.URL()
	if u.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return invalid("The query is not well-formed.")
	}
	for name, values := range query {
		if len(values) > 1 {
			return invalid(fmt.Sprintf("The query parameter %q stands there more than once.", shorten(name)))
		}
	}
	return nil
}

// checkMediaType takes a missing header for JSON, as RFC 9110, section
// 8.3, allows.
func checkMediaType(header http.Header) *Error {
	if len(header.Values("Content-Type")) == 0 || IsJSON(header) {
		return nil
	}
	return New(http.StatusUnsupportedMediaType, "unsupported_media_type",
		"The body must be application/json in UTF-8.")
}

// IsJSON tells whether a header announces a body that every recipient
// takes for JSON in UTF-8: one Content-Type that says so, and no
// Content-Encoding but identity.
func IsJSON(header http.Header) bool {
	types := header.Values("Content-Type")
	encoded := func(with string) bool { return with != "" && !strings.EqualFold(with, "identity") }
	if len(types) != 1 || slices.ContainsFunc(header.Values("Content-Encoding"), encoded) {
		return false
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	charset, named := parameters["charset"]
	return err == nil && media == "application/json" && (!named || strings.EqualFold(charset, "utf-8"))
}

func readBody(from io.Reader, limit int64) ([]byte, *Error) {
	if from == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(from, limit+1))
	var outside *http.MaxBytesError
	var network net.Error
	switch {
	case int64(len(body)) > limit || errors.As(err, &outside):
		return nil, New(http.StatusRequestEntityTooLarge, "body_too_large",
			fmt.Sprintf("The body is longer than %d bytes.", limit))
	case errors.As(err, &network) && network.Timeout():
		return nil, New(http.StatusRequestTimeout, "request_timeout", "The body took too long to arrive.")
	case err != nil:
		return nil, invalid("The body could not be read.")
	}
	return body, nil
}
