package caddyupstream

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/app"
)

// Threat: a site has TLS, and the option address is missing. Session cookies
// are then sent without TLS too. The log says so once.
func TestInsecureCookies(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]int{"http://localhost:8080": 1, "https://rates.example": 0} {
		var log bytes.Buffer
		u := &Upstream{Settings: app.Settings{Address: address}, logger: slog.New(slog.NewTextHandler(&log, nil))}
		if err := u.resolve("UTC"); err != nil {
			t.Fatal(err)
		}
		handler := http.NotFoundHandler()
		u.handler.Store(&handler)
		for _, state := range []*tls.ConnectionState{nil, {}, {}} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.TLS = state
			if err := u.ServeHTTP(httptest.NewRecorder(), r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Count(log.String(), "set the option address"); got != want {
			t.Errorf("%s: got %d warnings, want %d: %s", address, got, want, log.String())
		}
	}
}
