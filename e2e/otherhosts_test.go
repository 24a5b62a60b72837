package e2e_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestOtherHosts: a request whose host no site has gets 404, and is logged as the
// others: in the access log, without headers and queries. Caddy would answer 200,
// and write all of it to its own log.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	forms := map[string]func(port, secure string) string{
		"one host":   func(port, _ string) string { return "http://127.0.0.1:" + port },
		"two hosts":  func(port, _ string) string { return "http://127.0.0.1:" + port + ", http://two.localhost:" + port },
		"with HTTPS": func(port, secure string) string { return "http://127.0.0.1:" + port + ", https://localhost:" + secure },
	}
	for name, address := range forms {
		for _, form := range [][]string{nil, {stack.OneProcess}} {
			t.Run(fmt.Sprint(name, form), func(t *testing.T) {
				t.Parallel()
				ports := stack.FreePorts(t, 2)
				caddyfile := stack.Shipped(t, "grace_period 10s\n", "grace_period 10s\n\tskip_install_trust\n\tauto_https disable_redirects\n")
				s := stack.Start(t, caddyfile, append(form, "TOLLGATE_ADDRESS="+address(ports[0], ports[1]))...)
				askOtherHosts(t, s, "127.0.0.1:"+ports[0], nil)
				if name == "with HTTPS" {
					eventually(t, "the certificate", func() error {
						connection, err := tls.Dial("tcp", "127.0.0.1:"+ports[1], &tls.Config{ServerName: "localhost", InsecureSkipVerify: true})
						if err == nil {
							err = connection.Close()
						}
						return err
					})
					askOtherHosts(t, s, "127.0.0.1:"+ports[1], &tls.Config{ServerName: "localhost", InsecureSkipVerify: true})
					if connection, err := tls.Dial("tcp", "127.0.0.1:"+ports[1], &tls.Config{ServerName: "nobody.example", InsecureSkipVerify: true}); err == nil {
						_ = connection.Close()
						t.Error("there is a certificate for a host that no site has")
					}
				}
				if response, body := s.Call("GET", "/api/usage", "", nil); response.StatusCode != http.StatusUnauthorized {
					t.Errorf("the host of the site gets %d %s, want 401", response.StatusCode, body)
				}
				s.Stop()
				all, access := s.Log()+read(t, s.AccessLog()), read(t, s.AccessLog())
				if strings.Contains(all, "of-a-header") || strings.Contains(all, "of-a-link") || strings.Contains(s.Log(), "nobody.example") {
					t.Errorf("the logs have more of a request than the access log may have:\n%s", access)
				}
				if !strings.Contains(access, `"host":"nobody.example`) {
					t.Errorf("the access log has no line of the request:\n%s", access)
				}
			})
		}
	}
}

// askOtherHosts makes requests for hosts that no site has.
func askOtherHosts(t *testing.T, s *stack.Stack, address string, secure *tls.Config) {
	t.Helper()
	for _, head := range []string{
		"GET /portal?link=of-a-link HTTP/1.1\r\nHost: nobody.example\r\nConnection: close\r\n",
		"GET http://nobody.example/api/rates/EUR HTTP/1.1\r\nHost: nobody.example:80\r\nConnection: close\r\n",
		"POST /api/login HTTP/1.1\r\nHost: a.b.c.d.e.f\r\nConnection: close\r\nContent-Length: 0\r\n",
		"GET / HTTP/1.0\r\n",
	} {
		connection, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
		must(t, err)
		if secure != nil {
			connection = tls.Client(connection, secure)
		}
		_, err = io.WriteString(connection, head+"X-Api-Key: of-a-header\r\nX-Long: "+strings.Repeat("long", 1000)+"\r\n\r\n")
		must(t, err)
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		must(t, err)
		if body, err := io.ReadAll(response.Body); response.StatusCode != http.StatusNotFound || len(body) > 0 || err != nil {
			t.Errorf("%q got %d %s, %v, want 404", head, response.StatusCode, body, err)
		}
		must(t, connection.Close())
	}
}
