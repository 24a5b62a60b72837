package caddymodule_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// atOnce are options with limits of calls at once.
const atOnce = `
		guard /api/
		endpoint live GET /api/live {
			upgrade
		}
		endpoint stream GET /api/stream
		plan small {
			live concurrent 1
			stream concurrent 1
		}
`

// TestConcurrent: a stream, and a connection that speaks WebSocket, run until they
// end, by the service, by the client, or by an answer that breaks off, and a reload
// ends none.
func TestConcurrent(t *testing.T) {
	end := make(chan string)
	s := start(t, setup{zone: calmZone(), port: freePort(t), gate: atOnce, upstream: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, conn) // until the client leaves
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case how := <-end:
			if how == "abort" {
				panic(http.ErrAbortHandler)
			}
		case <-r.Context().Done():
		}
	}})
	_, bearer := s.account(t, "small", "live", "stream")
	begin := func(target, lines, first string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n", target, bearer, lines)
		r := bufio.NewReader(conn)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatalf("reading %q: %v", first, err)
			}
			if strings.HasPrefix(line, first) {
				return conn
			}
		}
	}
	refused := func(target string) bool {
		t.Helper()
		got := s.get(t, target, bearer)
		return got.status == 429 && strings.Contains(got.body, "too_many_concurrent")
	}
	stream := func() net.Conn { t.Helper(); return begin("/api/stream", "", "data: 1") }
	// free waits until another stream begins, and ends it.
	free := func(after string) {
		t.Helper()
		eventually(t, "room after "+after, func() bool {
			r, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://127.0.0.1:%d/api/stream", s.port), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+bearer)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != 200 {
				return false
			}
			end <- "end"
			_, err = io.Copy(io.Discard, answer.Body)
			return err == nil
		})
	}
	// Before the reload: a server that ends closes its WebSockets.
	socket := begin("/api/live", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "HTTP/1.1 101")
	if !refused("/api/live") {
		t.Error("a call beside a WebSocket is not refused")
	}
	socket.Close()
	eventually(t, "room after a WebSocket", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /api/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", bearer)
		line, err := bufio.NewReader(conn).ReadString('\n')
		return err == nil && strings.HasPrefix(line, "HTTP/1.1 101")
	})
	for _, how := range []string{"end", "abort", "leave", "reload"} {
		conn := stream()
		if !refused("/api/stream") {
			t.Errorf("%s: a second stream is not refused", how)
		}
		switch how {
		case "leave":
			conn.Close()
		case "reload":
			s.more = "plan extra {\nlive 1\n}"
			if err := s.reload(); err != nil {
				t.Fatal(err)
			}
			if !refused("/api/stream") {
				t.Error("a reload forgets a stream")
			}
			end <- "end"
		default:
			end <- how
		}
		free(how)
	}
}

// TestConcurrentInTurn: a client that makes one call after the other, each on its own
// connection, is never one of two.
func TestConcurrentInTurn(t *testing.T) {
	long := strings.Repeat("x", 64<<10) // net/http writes it before the handler returns
	s := start(t, setup{zone: calmZone(), port: freePort(t), gate: atOnce, upstream: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(long)))
		_, _ = io.WriteString(w, long)
	}})
	_, bearer := s.account(t, "small", "stream")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range 100 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://127.0.0.1:%d/api/stream", s.port), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+bearer)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 200 || len(body) != len(long) {
			t.Fatalf("call %d: got %d with %d bytes, %v", i, answer.StatusCode, len(body), err)
		}
	}
}
