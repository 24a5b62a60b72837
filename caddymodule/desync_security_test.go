package caddymodule_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Threat: the upstream answers before it has read a long body. The body
// contains a request, and Caddy reads it as the next one of the connection.
// Behind a load balancer that shares connections, its answer would go to
// another client.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	var smuggled atomic.Int64
	early := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/smuggled" {
			smuggled.Add(1)
		}
		w.WriteHeader(http.StatusUnsupportedMediaType)
	}))
	t.Cleanup(early.Close)
	s := start(t, setup{behind: "reverse_proxy " + early.Listener.Addr().String()})
	_, bearer := s.account(t, "business")
	body := strings.Repeat("GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n", 1<<15)
	for _, path := range []string{"/api/convert/batch", "/open"} {
		for range 20 {
			conn := s.open(t, "")
			request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"+
				"GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path, bearer, len(body), body)
			for i, status := range statuses(t, conn, request) {
				if status != http.StatusUnsupportedMediaType || i > 1 {
					t.Fatalf("%s: answer %d has status %d, want at most two with 415", path, i+1, status)
				}
			}
		}
	}
	if n := smuggled.Load(); n > 0 {
		t.Errorf("the upstream got %d requests from bodies", n)
	}
}

// statuses sends bytes and returns the statuses of all answers before the
// server closes the connection.
func statuses(t *testing.T, conn net.Conn, request string) (list []int) {
	t.Helper()
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may stop reading it
	for in := bufio.NewReader(conn); ; {
		answer, err := http.ReadResponse(in, nil)
		if err != nil && len(list) == 0 {
			t.Fatal(err)
		}
		if err != nil {
			return list // closed, or reset
		}
		list = append(list, answer.StatusCode)
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return list
		}
	}
}
