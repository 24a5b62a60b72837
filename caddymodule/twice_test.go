package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestTwiceInAChain: a request that meets the directive twice is counted
// and throttled once, and carries its identity on.
func TestTwiceInAChain(t *testing.T) {
	s := start(t, setup{before: "tollgate"})
	id, bearer := s.account(t, "small")
	for range 5 {
		if got := s.get(t, convert, bearer); got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		if r, _ := s.upstream.last(t); r.Header.Get("Tollgate-Account") != id || r.Header.Get("Authorization") != "" {
			t.Errorf("the upstream got %v", r.Header)
		}
	}
	if got := s.get(t, convert, bearer); got.code() != "quota_exceeded" || s.used(t, id, "convert") != 5 {
		t.Errorf("after 5 calls: got %d %s, counted %d", got.status, got.body, s.used(t, id, "convert"))
	}

	s.upstream.answers(code(http.StatusUnauthorized))
	for attempt := range 6 {
		got := s.ask(t, "POST", "/api/login", `{"email":"a@example.com","password":"x"}`, "Content-Type: application/json")
		if got.status == http.StatusTooManyRequests != (attempt == 5) {
			t.Errorf("attempt %d: got %d", attempt, got.status)
		}
	}
}

// Threat: a client has learnt what the gate proves itself with, and sends
// it along. That the gate has let a request through is no header.
func TestKnownProof(t *testing.T) {
	s := start(t, setup{more: "proof static"})
	_, bearer := s.account(t, "small")
	s.get(t, convert, bearer)
	r, _ := s.upstream.last(t)
	lines := []string{}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "Tollgate-") {
			lines = append(lines, name+": "+values[0])
		}
	}
	if len(lines) != 6 {
		t.Fatalf("the upstream got %v", r.Header)
	}
	got := s.ask(t, "GET", convert, "", lines...)
	if got.status != http.StatusUnauthorized || s.upstream.seen() != 1 {
		t.Errorf("got %d, the upstream saw %d requests", got.status, s.upstream.seen())
	}
}

// Threat: another handler sets a variable of the gate's name. Only the
// gate's own value is a mark.
func TestForeignMark(t *testing.T) {
	s := start(t, setup{before: "vars tollgate.call x"})
	if got := s.ask(t, "GET", convert, ""); got.status != http.StatusUnauthorized || s.upstream.seen() != 0 {
		t.Errorf("got %d, the upstream saw %d requests", got.status, s.upstream.seen())
	}
}

// TestGateInErrorRoute: what answers in place of an upstream that failed
// is gated anew, as the call was given back.
func TestGateInErrorRoute(t *testing.T) {
	s := start(t, setup{zone: calmZone(), more: "errors pass", behind: "reverse_proxy " + deadAddress(t) + "\nhandle_errors 502 {\ntollgate\nrespond fallback 200\n}"})
	id, bearer := s.account(t, "small")
	got := s.get(t, convert, bearer)
	if got.status == http.StatusOK || got.body == "fallback" || s.used(t, id, "convert") != 0 {
		t.Errorf("got %d %q, counted %d; want no answer for nothing", got.status, got.body, s.used(t, id, "convert"))
	}
}
