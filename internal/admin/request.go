package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// checkedHeader replaces the header of a request that checkRequest let
// pass. huma reads both fields again and by other rules: it panics on
// "Accept: a;b,c", and "Content-Type: Application/JSON" is unknown to it.
var checkedHeader = http.Header{"Content-Type": {"application/json"}}

// checkRequest is the middleware in front of every operation. It refuses
// what huma would let pass or would refuse in a shape of its own: an
// Accept header that excludes the answer, an ambiguous query, and a body
// that has another media type, is too long or cannot be read.
func checkRequest(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	op := ctx.Operation()
	if op.RequestBody == nil {
		apierror.CloseUnread(w, r)
	}
	_, refused := apierror.Negotiate(r.Header)
	if refused == nil {
		refused = CheckQuery(r.URL.RawQuery)
	}
	var body []byte
	if refused == nil && op.RequestBody != nil {
		if refused = checkMediaType(r.Header); refused == nil {
			body, refused = ReadBody(http.MaxBytesReader(w, r.Body, op.MaxBodyBytes-1))
		}
	}
	if refused != nil {
		Send(w, r, refused)
		return
	}
	checked := *r
	checked.Header, checked.Body = checkedHeader, io.NopCloser(bytes.NewReader(body))
	next(humago.NewContext(op, &checked, statusWriter{w}))
}

// Send answers a request with a refusal.
func Send(w http.ResponseWriter, r *http.Request, refused *apierror.Error) {
	apierror.CloseUnread(w, r)
	// The client is gone if this fails; ignore the error.
	_ = refused.Write(w)
}

// statusWriter sends 400 where huma sends 422.
type statusWriter struct{ http.ResponseWriter }

// WriteHeader sends the status.
func (w statusWriter) WriteHeader(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the writer below, for http.ResponseController.
func (w statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// CheckQuery refuses a query that two parsers could read differently, and
// a parameter without a value, which huma ignores: a script whose variable
// is empty must not reset the counts of all endpoints instead of one.
func CheckQuery(raw string) *apierror.Error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return InvalidRequest("The query is malformed.")
	}
	for name, values := range query {
		switch {
		case len(values) > 1:
			return InvalidRequest(fmt.Sprintf("Duplicate query parameter %q.", Shorten(name)))
		case values[0] == "":
			return InvalidRequest(fmt.Sprintf("The query parameter %q has no value.", Shorten(name)))
		}
	}
	return nil
}

// checkMediaType accepts a request without a Content-Type as JSON, as RFC
// 9110, section 8.3, allows.
func checkMediaType(header http.Header) *apierror.Error {
	if len(header.Values("Content-Type")) == 0 || apierror.IsJSON(header) {
		return nil
	}
	return apierror.New(http.StatusUnsupportedMediaType, "unsupported_media_type",
		"The body must be application/json in UTF-8.")
}

// ReadBody reads a body that is not too long.
func ReadBody(from io.Reader) ([]byte, *apierror.Error) {
	body, err := io.ReadAll(from)
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, apierror.New(http.StatusRequestEntityTooLarge, "body_too_large",
			fmt.Sprintf("The body is longer than %d bytes.", tooLong.Limit))
	case err != nil:
		return nil, Unreadable(err)
	}
	return body, nil
}

// Unreadable returns the refusal of a body that could not be read.
func Unreadable(err error) *apierror.Error {
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return apierror.New(http.StatusRequestTimeout, "request_timeout", "The body took too long to arrive.")
	}
	return InvalidRequest("The body could not be read.")
}
