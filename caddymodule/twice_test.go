package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
)

// Threat: another handler sets a variable of the gate's name. Only the
// gate's own value is a mark.
func TestForeignMark(t *testing.T) {
	s := start(t, setup{before: "vars tollgate.call x"})
	if got := s.ask(t, "GET", convert, ""); got.status != http.StatusUnauthorized || s.upstream.seen() != 0 {
		t.Errorf("got %d, the upstream saw %d requests", got.status, s.upstream.seen())
	}
}

// TestGateInInterceptedRefusal is the same for handlers that see the gate's
// refusal, or the answer of an upstream, and no error. A call that was given
// back, or a login that is over, proves nothing to another upstream.
func TestGateInInterceptedRefusal(t *testing.T) {
	backup := startUpstream(t, nil)
	around := func(first string) string {
		return "intercept {\n@bad status 502\nhandle_response @bad {\n" + first + "\nreverse_proxy " + backup.address() + "\n}\n}"
	}
	const login = "POST /api/login HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 25\r\n"
	const call = "GET " + convert + " HTTP/1.1\r\n"
	dead := "reverse_proxy " + deadAddress
	for name, c := range map[string]struct {
		setup
		request string
	}{
		"call, no upstream":       {setup{behind: dead}, call},
		"call, answer given back": {setup{upstream: code(http.StatusBadGateway), more: "refund server_errors"}, call},
		"login, no upstream":      {setup{behind: dead}, login},
	} {
		t.Run(name, func(t *testing.T) {
			c.zone, c.global = calmZone(), "order intercept before tollgate"
			c.before = around("")
			s := start(t, c.setup)
			id, bearer := s.account(t, "small")
			seen := backup.seen()
			ask := func() {
				t.Helper()
				send(t, s, strings.TrimSuffix(c.request, "\r\n"), "Authorization: Bearer "+bearer+"\r\n", `{"email":"a@example.com"}`)
			}
			ask()
			if backup.seen() != seen+1 {
				t.Fatalf("%d requests reached the backup, want 1", backup.seen()-seen)
			}
			r, _ := backup.last(t)
			for name, values := range r.Header {
				if strings.HasPrefix(name, "Tollgate-") {
					t.Errorf("the backup got %s: %s", name, values)
				}
			}
			if n := s.used(t, id, "convert"); n != 0 {
				t.Errorf("counted %d, want 0", n)
			}
			if c.request != call {
				return
			}
			s.before = around("tollgate")
			if err := s.reload(); err != nil {
				t.Fatal(err)
			}
			ask()
			// A handler in front of the gate that replaces an answer makes a new
			// call with the token of the request.
			if calls := int64(backup.seen() - seen - 1); calls != 1 || s.used(t, id, "convert") != 1 {
				t.Errorf("the backup answered %d calls, counted %d", calls, s.used(t, id, "convert"))
			}
		})
	}
}

// TestGateInErrorRoute: what answers in place of an upstream that failed
// is gated anew, as the call was given back.
func TestGateInErrorRoute(t *testing.T) {
	s := start(t, setup{zone: calmZone(), more: "errors pass", behind: "reverse_proxy " + deadAddress + "\nhandle_errors 502 {\ntollgate\nrespond fallback 200\n}"})
	id, bearer := s.account(t, "small")
	got := s.get(t, convert, bearer)
	if got.status == http.StatusOK || got.body == "fallback" || s.used(t, id, "convert") != 0 {
		t.Errorf("got %d %q, counted %d; want no answer for nothing", got.status, got.body, s.used(t, id, "convert"))
	}
}
