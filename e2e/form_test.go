package e2e_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// browser is the Accept header of a browser that opens a page.
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// dial connects to the public site of a stack.
func dial(t *testing.T, s *stack.Stack) net.Conn {
	t.Helper()
	address, err := url.Parse(s.Address)
	must(t, err)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address.Host)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// TestBrokenForm sends forms with a body that is malformed, breaks off or
// stalls. Each gets a complete 400: a page for a browser, JSON for a program.
func TestBrokenForm(t *testing.T) { stack.Forms(t, breakForms) }

func breakForms(t *testing.T, form ...string) {
	// A shorter timeout makes the test shorter.
	s := stack.Start(t, stack.Shipped(t, "read_body_idle 10s 250", "read_body_idle 1s 250"), form...)
	for name, c := range map[string]struct {
		body string
		ends bool // the client sends nothing more
	}{
		"a malformed chunk": {"Transfer-Encoding: chunked\r\n\r\n5\r\nemail\r\nzz\r\n", false},
		"a body cut off":    {"Content-Length: 100\r\n\r\nemail=a%40example.com&passw", true},
		"a chunk cut off":   {"Transfer-Encoding: chunked\r\n\r\n50\r\nemail=a", true},
		"a stalled body":    {"Content-Length: 100\r\n\r\nemail=a%40example.com&passw", false},
		"a stalled chunk":   {"Transfer-Encoding: chunked\r\n\r\n50\r\nemail=a", false},
	} {
		for _, path := range []string{"/login", "/signup"} {
			for accept, says := range map[string]string{browser: `<a href="">Back to the form</a>`, "*/*": `"code":"invalid_request"`} {
				t.Run(name+" "+path+" "+accept[:3], func(t *testing.T) {
					t.Parallel()
					conn := dial(t, s)
					head := "POST " + path + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(s.Address, "http://") + "\r\nAccept: " + accept +
						"\r\nContent-Type: application/x-www-form-urlencoded\r\n"
					if _, err := io.WriteString(conn, head+c.body); err != nil {
						t.Fatal(err)
					}
					if c.ends {
						must(t, conn.(*net.TCPConn).CloseWrite())
					}
					response, err := http.ReadResponse(bufio.NewReader(conn), nil)
					must(t, err)
					text, err := io.ReadAll(response.Body)
					if err != nil || response.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), says) {
						t.Errorf("got %d %v %s, %v; want 400 with %s", response.StatusCode, response.Header, text, err, says)
					}
					if (accept == browser) != strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
						t.Errorf("got Content-Type %q", response.Header.Get("Content-Type"))
					}
				})
			}
		}
	}
}

// TestNoForgedWait checks that a link cannot make the site show a wait that
// the gate did not set.
func TestNoForgedWait(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	response, text := s.Call("GET", "/login/refused?status=429&wait=86400&form=/login", "", nil)
	if response.StatusCode != http.StatusNotFound || strings.Contains(text, "1440") || strings.Contains(text, "24 hours") {
		t.Errorf("got %d %s, want 404", response.StatusCode, text)
	}
}
