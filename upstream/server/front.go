package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strconv"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

//go:embed front.html
var frontPage string

//go:embed front.css
var frontStyle string

// front returns the page at / that says what this is. It never changes
// while the process runs, so it is rendered once.
func front(address, timezone string) (http.Handler, error) {
	page, err := template.New("front").Parse(frontPage)
	if err != nil {
		return nil, fmt.Errorf("parsing front page: %w", err)
	}
	var body bytes.Buffer
	err = page.Execute(&body, map[string]any{
		"Address":  address,
		"Timezone": timezone,
		"Style":    template.CSS(frontStyle), //nolint:gosec // embedded, nobody's input
	})
	if err != nil {
		return nil, fmt.Errorf("rendering front page: %w", err)
	}
	// The style is allowed by its hash and nothing else is allowed at
	// all, so that even a mistake in the template could not run a script.
	hash := sha256.Sum256([]byte(frontStyle))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Length", strconv.Itoa(body.Len()))
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		// Nobody is left to tell when this fails: the client is gone.
		_, _ = w.Write(body.Bytes())
	})
	return apierror.Mux(mux), nil
}
