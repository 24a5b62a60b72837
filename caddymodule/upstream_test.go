package caddymodule_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// upstream is a real server that remembers what reached it.
type upstream struct {
	server *httptest.Server

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	answer   http.HandlerFunc
}

func newUpstream(answer http.HandlerFunc) *upstream {
	u := &upstream{answer: answer}
	u.server = httptest.NewServer(u)
	return u
}

// startUpstream starts one until the test ends.
func startUpstream(t testing.TB, answer http.HandlerFunc) *upstream {
	u := newUpstream(answer)
	t.Cleanup(u.server.Close)
	return u
}

// reset forgets what it has seen, and answers as at first.
func (u *upstream) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests, u.bodies, u.answer = nil, nil, nil
}

func (u *upstream) address() string { return u.server.Listener.Addr().String() }

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	// A body that breaks off has reached the upstream as well.
	_, _ = body.ReadFrom(r.Body)
	u.mu.Lock()
	u.requests = append(u.requests, r)
	u.bodies = append(u.bodies, body.String())
	answer := u.answer
	u.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "rates")
}

// answers changes how the upstream answers.
func (u *upstream) answers(how http.HandlerFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answer = how
}

// seen is how many requests reached the upstream.
func (u *upstream) seen() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.requests)
}

// all are the requests that reached the upstream.
func (u *upstream) all() []*http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.requests)
}

// last is the newest request that reached the upstream, and its body.
func (u *upstream) last(t testing.TB) (*http.Request, string) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.requests) == 0 {
		t.Fatal("no request reached the upstream")
	}
	n := len(u.requests) - 1
	return u.requests[n], u.bodies[n]
}
