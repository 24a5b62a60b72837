package caddymodule_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
)

const (
	page    = "https://app.example.com"
	exposed = "RateLimit, RateLimit-Policy, Retry-After, X-Should-Retry, WWW-Authenticate, ETag, Link"
)

// checkCORS checks the headers that every answer to an allowed origin has, and
// that none is there twice or is that of the service.
func checkCORS(t *testing.T, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": page, "Access-Control-Expose-Headers": exposed, "Access-Control-Allow-Credentials": "",
	} {
		if got := strings.Join(h.Values(name), "|"); got != want {
			t.Errorf("got %s %q, want %q", name, got, want)
		}
	}
	if got := strings.Join(h.Values("Vary"), ", "); strings.Count(got, "Origin") != 1 {
		t.Errorf("got Vary %q", got)
	}
}

// TestCORS asks through the whole of Caddy: a preflight, answers of a service
// that has CORS of its own, and the answer for a service that is away.
func TestCORS(t *testing.T) {
	s := start(t, setup{zone: calmZone(), more: "cors " + page, upstream: func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Add("Access-Control-Allow-Origin", "https://the.service")
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Expose-Headers", "*")
		h.Set("Vary", "Accept-Encoding")
		if r.URL.Path == convert {
			w.WriteHeader(http.StatusEarlyHints)
		}
		for range 2 {
			_, _ = io.WriteString(w, "part") // the test reads it
			_ = http.NewResponseController(w).Flush()
		}
	}})
	id, bearer := s.account(t, "small")
	token, origin := "Authorization: Bearer "+bearer, "Origin: "+page
	t.Run("preflight", func(t *testing.T) {
		got := s.ask(t, "OPTIONS", convert, "", origin, "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: authorization")
		if got.status != http.StatusNoContent || s.upstream.seen() != 0 || got.header.Get("Access-Control-Allow-Methods") != "GET, HEAD" {
			t.Errorf("got %+v, and the service saw %d requests", got, s.upstream.seen())
		}
		checkCORS(t, got.header)
		body := s.raw(t, "OPTIONS "+convert+" HTTP/1.1\r\nHost: x\r\n"+origin+"\r\nAccess-Control-Request-Method: GET\r\nContent-Length: 5\r\n\r\nhello")
		if strings.Count(body, "HTTP/1.1") != 1 || !strings.Contains(body, "Connection: close\r\n") {
			t.Errorf("with a body: %s", body)
		}
	})
	t.Run("Early Hints and a streamed answer", func(t *testing.T) {
		hints := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			hints++
			checkCORS(t, http.Header(h))
			return nil
		}})
		got, err := s.try(ctx, "GET", convert, "", token, origin)
		if err != nil || got.body != "partpart" || hints != 1 || got.header.Get("Ratelimit") == "" || !strings.Contains(strings.Join(got.header["Vary"], ", "), "Accept-Encoding") {
			t.Errorf("got %+v and %d early hints (%v)", got, hints, err)
		}
		checkCORS(t, got.header)
	})
	t.Run("outside of the guard", func(t *testing.T) {
		got := s.ask(t, "GET", "/open", "", origin)
		if len(got.header["Access-Control-Allow-Origin"]) != 2 || got.header.Get("Access-Control-Allow-Credentials") != "true" {
			t.Errorf("the gate changed %v", got.header)
		}
	})
	t.Run("service away", func(t *testing.T) {
		s.upstream.server.Close()
		got := s.ask(t, "GET", convert, "", token, origin)
		if got.status != http.StatusBadGateway || got.code() != "upstream_unreachable" {
			t.Errorf("got %+v", got)
		}
		checkCORS(t, got.header)
	})
	if got := s.used(t, id, "convert"); got != 1 {
		t.Errorf("counted %d calls, want 1", got)
	}
}
