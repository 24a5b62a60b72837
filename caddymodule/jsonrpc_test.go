package caddymodule_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// operations are options with endpoints that share a path.
const operations = `
		guard /api/
		endpoint search POST /api/mcp {
			jsonrpc tools/call search
			ability mcp
			cost 5
		}
		endpoint tools POST /api/mcp {
			jsonrpc tools/call
			ability mcp
		}
		endpoint mcp POST GET DELETE /api/mcp
		plan free
		plan small {
			search 12
			tools  3
			mcp    100
			tools  2 week calls
		}
`

// TestOperations: the body chooses the endpoint through Caddy and its proxy, which
// passes it unchanged, also in chunks. Streams and the headers of MCP pass.
func TestOperations(t *testing.T) {
	s := start(t, setup{zone: calmZone(), port: freePort(t), gate: operations, upstream: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Mcp-Session-Id", "session")
		_, _ = io.WriteString(w, "data: "+r.Header.Get("Mcp-Session-Id")+"\n\n")
	}})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	account, bearer := s.account(t, "small", "mcp")
	const search, fetch, ping = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}`, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fetch"}}`, `{"jsonrpc":"2.0","method":"ping"}`
	send := func(method, body string, headers ...string) answered {
		t.Helper()
		var reader io.Reader = strings.NewReader(body)
		if len(headers) > 0 {
			reader = struct{ io.Reader }{reader} // in chunks
		}
		r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d/api/mcp", s.port), reader)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + bearer}, "Content-Type": {"application/json"}, "Mcp-Session-Id": {"a"}, "Mcp-Method": {"ping"}, "Mcp-Name": {"fetch"}}
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answered{answer.StatusCode, answer.Header, string(text)}
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, search)
	_ = z.Close()
	var passed []string
	for _, c := range []struct {
		method, body string
		headers      []string
		status       int
	}{
		{"POST", search, nil, 200},
		{"POST", " " + search, []string{"X-Chunked: 1"}, 200},
		{"POST", search, nil, 429},
		{"POST", "[" + fetch + "," + fetch + "]", nil, 200},
		{"POST", fetch, nil, 429}, // two calls a week
		{"POST", "[" + ping + "," + ping + "," + ping + "]", nil, 200},
		{"POST", ping, []string{"Content-Type: application/json; charset=utf-8"}, 200},
		{"POST", "[" + ping + "," + search + "]", nil, 400},
		{"POST", `{"method":"ping","Method":"tools/call"}`, nil, 400},
		{"POST", `{"id":3,"method":"tools/call","params":{"name":"Search"}}`, nil, 404},
		{"POST", search, []string{"Content-Type: text/plain"}, 415},
		{"POST", zipped.String(), []string{"Content-Encoding: gzip"}, 415},
		{"POST", search + strings.Repeat(" ", 1<<20), nil, 413},
		{"POST", search + strings.Repeat(" ", 1<<20), []string{"X-Chunked: 1"}, 413},
		{"GET", "", nil, 200},
		{"DELETE", "", nil, 200},
		{"PUT", ping, nil, 405},
	} {
		got := send(c.method, c.body, c.headers...)
		if got.status != c.status {
			t.Errorf("%s %.90s %q: got %d %s, want %d", c.method, c.body, c.headers, got.status, got.body, c.status)
		}
		if c.status == http.StatusOK {
			passed = append(passed, c.body)
			if got.body != "data: a\n\n" || got.header.Get("Mcp-Session-Id") != "session" {
				t.Errorf("%s: got %s, %v", c.body, got.body, got.header)
			}
		}
		if c.status == http.StatusNotFound && !strings.Contains(got.body, `"jsonrpc":"2.0","id":3,"error":{"code":-32601`) {
			t.Errorf("got %s", got.body)
		}
	}
	s.upstream.mu.Lock()
	defer s.upstream.mu.Unlock()
	if got, want := fmt.Sprintf("%q", s.upstream.bodies), fmt.Sprintf("%q", passed); got != want {
		t.Errorf("the service got %s, want %s", got, want)
	}
	for endpoint, want := range map[string]int64{"search": 10, "tools": 2, "mcp": 6} {
		if got := s.used(t, account, endpoint); got != want {
			t.Errorf("%s: counted %d, want %d", endpoint, got, want)
		}
	}
}
