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

// TestClosedBodyIsTheUpstreamsFailure: HTTP/2 and HTTP/3 have errors of
// their own for a body that was closed by whoever read it. They say
// nothing about the client.
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
