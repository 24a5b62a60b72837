package outage_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// remote is a server that answers each connection with a text. It returns its
// URL, which has a secret.
func remote(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, answer)
			}
			_ = conn.Close()
		}
	}()
	return "http://" + listener.Addr().String() + "/s3cret"
}

// The threat: the receiver of a webhook, or another server, answers with
// personal data or a token where HTTP has something else. net/http quotes it in
// its error, and the error is logged.
func TestRemoteQuotesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, want string }{
		"no HTTP":     {"ada@example.com\r\n\r\n", "no valid HTTP answer"},
		"status":      {"HTTP/1.1 ada@example.com\r\n\r\n", "no valid HTTP answer"},
		"header line": {"HTTP/1.1 200 OK\r\nada@example.com\r\n\r\n", "no valid HTTP answer"},
		"encoding":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: ada@example.com\r\n\r\n", "no valid HTTP answer"},
		"location":    {"HTTP/1.1 302 Found\r\nLocation: ://ada@example.com\r\n\r\n", "no valid HTTP answer"},
		"nothing":     {"", "EOF"},
		"a part":      {"HTTP/1.1 200 OK\r\n", "unexpected EOF"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, remote(t, c.answer), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = answer.Body.Close()
			t.Errorf("%s: got %d, want an error", name, answer.StatusCode)
			continue
		}
		if got := outage.Remote(err); got.Error() != c.want {
			t.Errorf("%s: got %q of %q, want %q", name, got, err, c.want)
		}
	}
}

// TestRemoteSaysWhy: what this side knows is kept.
func TestRemoteSaysWhy(t *testing.T) {
	t.Parallel()
	strange := httptest.NewUnstartedServer(http.NotFoundHandler())
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	strange.StartTLS()
	t.Cleanup(strange.Close)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(slow.Close)
	trusting := strange.Client()
	trusting.Transport.(*http.Transport).TLSClientConfig.ServerName = "s3cret.example"
	for name, c := range map[string]struct {
		client *http.Client
		url    string
		want   string
	}{
		"refused":   {http.DefaultClient, "http://127.0.0.1:1", "connection refused"},
		"authority": {http.DefaultClient, strange.URL, "signed by an unknown authority"},
		"host":      {trusting, strange.URL, "the certificate is for another host"},
		"plain":     {http.DefaultClient, strings.Replace(slow.URL, "http:", "https:", 1), "server gave HTTP response to HTTPS client"},
		"timeout":   {&http.Client{Timeout: time.Millisecond}, slow.URL, "deadline exceeded"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/s3cret", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.client.Do(request)
		if err == nil {
			_ = answer.Body.Close()
			t.Errorf("%s: want an error", name)
			continue
		}
		if got := outage.Remote(err).Error(); !strings.Contains(got, c.want) || strings.Contains(got, "s3cret") {
			t.Errorf("%s: got %q of %q, want %q", name, got, err, c.want)
		}
	}
	if err := outage.Remote(nil); err != nil {
		t.Errorf("got %v of no error", err)
	}
	if err := outage.Remote(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
