package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// newPages returns what is served beside the endpoints, by path.
func newPages(document *huma.OpenAPI) (map[string]http.Handler, error) {
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the document: %w", err)
	}
	return map[string]http.Handler{
		"/openapi.json": page(text, http.Header{"Content-Type": {mediaType}}),
	}, nil
}

// page serves a text that does not change while the program runs.
func page(text []byte, header http.Header) http.Handler {
	etag := digest(text)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := w.Header()
		for name, values := range header {
			fields[name] = values
		}
		fields.Set("ETag", etag)
		fields.Set("Cache-Control", "no-cache")
		fields.Set("X-Content-Type-Options", "nosniff")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
}
