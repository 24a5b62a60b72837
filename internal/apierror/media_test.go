package apierror_test

import (
	"net/http"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// Threat: two recipients of one body take it for different things.
func TestIsJSON(t *testing.T) {
	t.Parallel()
	const mediaType, encoding = "Content-Type", "Content-Encoding"
	for name, c := range map[string]struct {
		header http.Header
		want   bool
	}{
		"JSON":                {http.Header{mediaType: {"application/json"}}, true},
		"in capitals":         {http.Header{mediaType: {"Application/JSON; Charset=UTF-8"}}, true},
		"not encoded":         {http.Header{mediaType: {"application/json"}, encoding: {"identity"}}, true},
		"nothing":             {http.Header{}, false},
		"empty":               {http.Header{mediaType: {""}}, false},
		"like JSON":           {http.Header{mediaType: {"application/json5"}}, false},
		"malformed":           {http.Header{mediaType: {"application/json; charset"}}, false},
		"two media types":     {http.Header{mediaType: {"application/json", "text/plain"}}, false},
		"the same type twice": {http.Header{mediaType: {"application/json", "application/json"}}, false},
		"another charset":     {http.Header{mediaType: {"application/json; charset=utf-16"}}, false},
		"compressed behind":   {http.Header{mediaType: {"application/json"}, encoding: {"identity", "gzip"}}, false},
		"compressed":          {http.Header{mediaType: {"application/json"}, encoding: {"gzip"}}, false},
	} {
		if got := apierror.IsJSON(c.header); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
