package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// largestBody is the maximum size of a request body in bytes. A hundred
// conversions with long ids take a quarter of it.
const largestBody = 64 << 10

// readBody returns a copy of the request with the body in memory. It refuses
// other media types than JSON, and bodies that are too large.
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
			"The body is too large. At most 64 KiB are allowed. Split the batch.")
	case err != nil:
		return nil, invalidRequest("The body is incomplete.")
	case len(body) == 0:
		return nil, invalidRequest("The body is empty. It must be a JSON object with the member \"conversions\".")
	}
	held := *r
	held.Body = io.NopCloser(bytes.NewReader(body))
	return &held, nil
}

// rawBody is a body that its handler decodes, so that refusals are those of
// this API.
type rawBody struct{ text []byte }

// batchBody is the raw body of POST /api/convert/batch.
type batchBody struct{ rawBody }

// Schema describes the decoded body.
func (batchBody) Schema(registry huma.Registry) *huma.Schema {
	return schemaOf[batchRequest](registry)
}

// keep stores a copy of the text.
func (b *rawBody) keep(text []byte) { b.text = bytes.Clone(text) }
