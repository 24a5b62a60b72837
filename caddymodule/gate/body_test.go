package gate_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// closingUpstream closes the body while a read of it is under way, as a
// proxy does whose upstream is gone, and fails.
func closingUpstream(t *testing.T) handlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) error {
		read := make(chan error)
		go func() {
			_, err := r.Body.Read(make([]byte, 1))
			read <- err
		}()
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		if err := <-read; err == nil {
			t.Error("the closed body could be read")
		}
		return failure(http.StatusBadGateway)
	}
}

// TestClosedBodyIsTheUpstreamsFailure: HTTP/2 and HTTP/3 have their own errors
// for a body that its reader has closed. They are not the client's fault.
func TestClosedBodyIsTheUpstreamsFailure(t *testing.T) {
	w := newWorld(t, func(c *policy.Config) { c.Endpoints[0].Method = "POST" })
	bearer := w.account(t, "acc_1")
	w.next = closingUpstream(t)
	reader, writer := io.Pipe()
	defer writer.Close()
	r := httptest.NewRequest("POST", convert, reader)
	r.Header.Set("Authorization", "Bearer "+bearer)
	answer := httptest.NewRecorder()
	if err := w.gate.Serve(answer, r, w.next); err != nil {
		t.Fatal(err)
	}
	if n := w.used(t, "acc_1", "convert", noon); answer.Code != http.StatusBadGateway || n != 0 {
		t.Errorf("got %d %s with %d counted, want 502 with none", answer.Code, answer.Body, n)
	}
}

// TestExtendedConnect: a WebSocket over HTTP/2 or HTTP/3 is a CONNECT,
// which no route matches, not even with the option upgrade.
func TestExtendedConnect(t *testing.T) {
	w := newWorld(t, func(c *policy.Config) { c.Endpoints[0].Upgrade = true })
	bearer := w.account(t, "acc_1")
	w.next = func(http.ResponseWriter, *http.Request) error {
		t.Error("the upstream was asked")
		return nil
	}
	for proto, major := range map[string]int{"HTTP/2.0": 2, "websocket": 3} {
		r := httptest.NewRequest("CONNECT", convert, nil)
		r.URL.Path, r.RequestURI = convert, convert
		r.Proto, r.ProtoMajor = proto, major
		r.Header = http.Header{":protocol": {"websocket"}, "Authorization": {"Bearer " + bearer}}
		answer := httptest.NewRecorder()
		if err := w.gate.Serve(answer, r, w.next); err != nil || answer.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: got %d %s (%v), want 405", proto, answer.Code, answer.Body, err)
		}
	}
	if n := w.used(t, "acc_1", "convert", noon); n != 0 {
		t.Errorf("counted %d", n)
	}
}
