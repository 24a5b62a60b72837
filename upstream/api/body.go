package api

import (
	"errors"
	"io"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// largestBody is the maximum size of a request body in bytes. A hundred
// conversions with long ids take a quarter of it.
const largestBody = 64 << 10

// readBody returns the body of a request. It refuses other media types than
// JSON, and bodies that are too large.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *apierror.Error) {
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
	return body, nil
}
