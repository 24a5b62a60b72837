package caddymodule_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/requestbody"
)

const batchPath = "/api/convert/batch"

// brokenBodies are bodies that a client breaks, by the headers that
// announce them and all that is sent of them.
var brokenBodies = map[string]struct {
	lines, body string
	open        bool // the client keeps its side open
	status      int
	code        string
}{
	"no chunk size":              {"Transfer-Encoding: chunked", "5\r\nabcde\r\nzz\r\n", true, 400, "invalid_request"},
	"negative chunk size":        {"Transfer-Encoding: chunked", "-1\r\n\r\n", true, 400, "invalid_request"},
	"chunk size beyond 64 bits":  {"Transfer-Encoding: chunked", "10000000000000000\r\n", true, 400, "invalid_request"},
	"chunk longer than its size": {"Transfer-Encoding: chunked", "5\r\nabcdefgh\r\n", true, 400, "invalid_request"},
	"malformed trailer":          {"Transfer-Encoding: chunked", "5\r\nabcde\r\n0\r\nno colon\r\n\r\n", true, 400, "invalid_request"},
	"no last chunk":              {"Transfer-Encoding: chunked", "5\r\nabcde\r\n", false, 400, "invalid_request"},
	"shorter than announced":     {"Content-Length: 100", "abcde", false, 400, "invalid_request"},
	"stalled":                    {"Content-Length: 100", "abcde", true, 400, "invalid_request"},
	"stalled between chunks":     {"Transfer-Encoding: chunked", "5\r\nabcde\r\n", true, 400, "invalid_request"},
	"over a limit":               {"Transfer-Encoding: chunked", "7d1\r\n" + strings.Repeat("x", 2001) + "\r\n0\r\n\r\n", true, 413, "body_too_large"},
}

// sendBody posts a body as it is, and returns the answer.
func sendBody(t *testing.T, s *site, target, lines, body string, open bool) answered {
	t.Helper()
	conn := s.open(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s", target, lines, body))
	if !open {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return answered{response.StatusCode, response.Header, string(text)}
}

// logged is a site whose log has the lines of Caddy and the gate from a
// level on.
func logged(t *testing.T, level string, s setup) (*site, func() string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "caddy.log")
	s.global += "\nlog {\noutput file " + file + "\nlevel " + level + "\nformat json\n}"
	return start(t, s), func() string {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
}

// impatient does not wait for a body that has stopped, and takes none of
// more than 2000 bytes.
var impatient = setup{
	zone:   calmZone(),
	global: "servers {\ntimeouts {\nread_body_idle 1s\n}\n}",
	before: "request_body {\nmax_size 2KB\n}",
	more:   "refund server_errors",
}

// TestBrokenBody: the gate answers a body that the client breaks, in its one
// shape, also where Caddy's proxy answers 499 because it takes the client for
// gone. A call stays counted, a login reaches no upstream, and the log does not
// blame the upstream.
func TestBrokenBody(t *testing.T) {
	s, log := logged(t, "ERROR", impatient)
	t.Run("bodies", func(t *testing.T) {
		for name, c := range brokenBodies {
			id, bearer := s.account(t, "starter", "convert")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for target, lines := range map[string]string{batchPath: "Authorization: Bearer " + bearer, "/api/login": asJSON} {
					got := sendBody(t, s, target, lines+"\r\n"+c.lines, c.body, c.open)
					if got.status != c.status || got.code() != c.code {
						t.Errorf("%s: got %d %s, want %d %s", target, got.status, got.body, c.status, c.code)
					}
					if limit := got.header.Get("Ratelimit"); target == batchPath && (got.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(limit, `"batch";r=999;`)) {
						t.Errorf("got headers %v, want those of a counted call", got.header)
					}
				}
				if n := s.used(t, id, "batch"); n != 1 {
					t.Errorf("counted %d, want 1", n)
				}
				eventually(t, "the call is recorded", func() bool {
					recent, err := s.store(t).Recent(t.Context(), id, time.Now())
					return err == nil && len(recent) == 1 && recent[0].Status == c.status
				})
			})
		}
	})
	if text := log(); text != "" {
		t.Errorf("the log says %s", text)
	}
	for _, r := range s.upstream.all() {
		if r.URL.Path == "/api/login" {
			t.Error("a login reached the upstream")
		}
	}
}

// TestLongBodyBehindTheGate: a request_body behind the gate refuses a body
// too. The gate words it, and the call stays counted.
func TestLongBodyBehindTheGate(t *testing.T) {
	s := start(t, setup{zone: calmZone(), more: "refund server_errors", behind: "handle {\nrequest_body {\nmax_size 2KB\n}\nreverse_proxy UPSTREAM\n}"})
	id, bearer := s.account(t, "starter", "convert")
	for kind, lines := range map[string]string{"announced": "Content-Length: 3000", "chunked": "Transfer-Encoding: chunked"} {
		body := strings.Repeat("x", 3000)
		if kind == "chunked" {
			body = "bb8\r\n" + body + "\r\n0\r\n\r\n"
		}
		got := sendBody(t, s, batchPath, "Authorization: Bearer "+bearer+"\r\n"+lines, body, true)
		if got.status != 413 || got.code() != "body_too_large" {
			t.Errorf("%s: got %d %s, want 413 body_too_large", kind, got.status, got.body)
		}
	}
	got := s.ask(t, "POST", "/api/login", `{"email":"a@example.com","password":"`+strings.Repeat("x", 3000)+`"}`, asJSON)
	if got.status != 413 || got.code() != "body_too_large" {
		t.Errorf("login: got %d %s, want 413 body_too_large", got.status, got.body)
	}
	if n := s.used(t, id, "batch"); n != 2 {
		t.Errorf("counted %d, want 2", n)
	}
}

// TestBrokenBodyPassed leaves the wording to handle_errors.
func TestBrokenBodyPassed(t *testing.T) {
	s := start(t, setup{zone: calmZone(), more: "errors pass", behind: "reverse_proxy UPSTREAM\nhandle_errors {\nrespond \"mine {err.status_code}\"\n}"})
	id, bearer := s.account(t, "starter", "convert")
	c := brokenBodies["no chunk size"]
	got := sendBody(t, s, batchPath, "Authorization: Bearer "+bearer+"\r\n"+c.lines, c.body, c.open)
	if got.status != 400 || got.body != "mine 400" {
		t.Errorf("got %d %q", got.status, got.body)
	}
	if n := s.used(t, id, "batch"); n != 1 {
		t.Errorf("counted %d, want 1", n)
	}
}

// TestUpstreamThatHangsUpOnABody is the upstream's failure: nothing is
// wrong with the body.
func TestUpstreamThatHangsUpOnABody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			// Some of the request is enough to be there.
			_, _ = conn.Read(make([]byte, 1024))
			conn.Close()
		}
	}()
	s := start(t, setup{zone: calmZone(), behind: "reverse_proxy " + listener.Addr().String()})
	id, bearer := s.account(t, "starter", "convert")
	got := sendBody(t, s, batchPath, "Authorization: Bearer "+bearer+"\r\nContent-Length: 100000", strings.Repeat("x", 100_000), true)
	if got.status != 502 || got.code() != "upstream_unreachable" || s.used(t, id, "batch") != 0 {
		t.Errorf("got %d %s with %d counted, want 502 with none", got.status, got.body, s.used(t, id, "batch"))
	}
}
