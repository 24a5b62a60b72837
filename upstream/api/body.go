package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// largestBody is the size of a request body that is still read, in bytes.
// A hundred conversions with long ids take a quarter of it.
const largestBody = 64 << 10

// readBody returns a copy of the request whose body is in memory. It
// refuses what is not JSON by its own account, and what is too large.
func readBody(w http.ResponseWriter, r *http.Request) (*http.Request, *apierror.Error) {
	if !apierror.IsJSON(r.Header) {
		return nil, apierror.New(http.StatusUnsupportedMediaType, codeUnsupportedMedia,
			"The body must be JSON in UTF-8, sent as Content-Type: application/json without a Content-Encoding.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, apierror.New(http.StatusRequestEntityTooLarge, codeBodyTooLarge,
			"The body is too large. At most 64 KiB are read: split the batch.")
	case err != nil:
		return nil, invalidRequest("The body could not be read to its end.")
	case len(body) == 0:
		return nil, invalidRequest("The body is empty. It must be a JSON object with the member conversions.")
	}
	held := *r
	held.Body = io.NopCloser(bytes.NewReader(body))
	return &held, nil
}

// rawBody is a body that its handler decodes itself, so that refusals say
// what is wrong in this API's words.
type rawBody struct{ text []byte }

// batchBody is the raw body of POST /api/convert/batch.
type batchBody struct{ rawBody }

// Schema describes what the handler decodes the body into.
func (batchBody) Schema(registry huma.Registry) *huma.Schema {
	return schemaOf[batchRequest](registry)
}

// keep holds on to a copy of the text.
func (b *rawBody) keep(text []byte) { b.text = bytes.Clone(text) }
