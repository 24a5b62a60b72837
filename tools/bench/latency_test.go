package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A caller sends the tokens in turn over one connection, and another status
// than 200 is an error.
func TestCaller(t *testing.T) {
	t.Parallel()
	b := &bench{}
	upstream, err := b.startUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(t.Context(), upstream, requestsOf(upstream, []string{"one", "two"}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	took, err := c.block(t.Context())
	if err != nil || len(took) != blockCalls || took.median() <= 0 {
		t.Errorf("got %d values with the median %v, %v", len(took), took.median(), err)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}

	var received []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if received = append(received, r.Header.Get("Authorization")); len(received) == 3 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	c, err = connect(t.Context(), address, requestsOf(address, []string{"one", "two"}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.block(t.Context()); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("got %v, want an error with the status", err)
	}
	if got, want := strings.Join(received, ", "), "Bearer two, Bearer one, Bearer two"; got != want {
		t.Errorf("the server got %s, want %s", got, want)
	}
}

// The second load generator has as many connections as wrk, makes its
// requests, and reports refusals.
func TestCallTogether(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var refuse atomic.Bool
	var remote sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		remote.Store(r.RemoteAddr+r.Header.Get("Authorization"), true)
		if refuse.Load() {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	g := generator{tokens: []string{"one"}}
	address := strings.TrimPrefix(server.URL, "http://")
	l, err := g.run(t.Context(), address, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	clients := 0
	remote.Range(func(any, any) bool { clients++; return true })
	if l.Requests != calls.Load() || clients != connections || l.Duration < 1e6 || l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.Longest {
		t.Errorf("the server got %d requests over %d connections, the report is %+v", calls.Load(), clients, l)
	}
	refuse.Store(true)
	if _, err := g.run(t.Context(), address, time.Second); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("got %v, want an error with the status", err)
	}
}

// The proxy with the headers of the gate sends the upstream and the client
// the same fields as the gate, and an assertion of the same length.
func TestGateHeaders(t *testing.T) {
	t.Parallel()
	var last atomic.Pointer[http.Header] // of the upstream
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		last.Store(&r.Header)
	}))
	defer upstream.Close()
	address := strings.TrimPrefix(upstream.URL, "http://")
	b := built(t)
	g, err := b.startGate(t.Context(), "sync off", proxyTo(address))
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := b.startCaddy(t.Context(), caddyConfig{site: proxyTo(address, gateHeaders)}, answers{status: http.StatusOK})
	if err != nil {
		t.Fatal(err)
	}
	fields := func(s *server) [2][]string {
		response, err := s.call(t.Context(), g.ample[42])
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return [2][]string{slices.Sorted(maps.Keys(*last.Load())), slices.Sorted(maps.Keys(response.Header))}
	}
	got, want := fields(proxy), fields(g.server)
	if length := len(last.Load().Get("Tollgate-Assertion")); length < assertionLength-2 || length > assertionLength+2 {
		t.Errorf("assertion of %d bytes, want assertionLength=%d", length, assertionLength)
	}
	for i, receiver := range []string{"upstream", "client"} {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("the %s gets %q, behind the gate %q", receiver, got[i], want[i])
		}
	}
	if len(want[0]) < 5 || !slices.Contains(want[0], "Tollgate-Assertion") || !slices.Contains(want[1], "Ratelimit") {
		t.Errorf("behind the gate the upstream gets %q and the client %q", want[0], want[1])
	}
}
