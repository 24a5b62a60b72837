package gate_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"

	"github.com/caddy-tollgate/tollgate/internal/policy"
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
	w := newWorld(t, func(c *policy.Config) { c.Endpoints[0].Patterns = []string{"POST /api/convert/{from}/{amount}/{to}"} })
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

// TestBrokenBodyIsNotGivenBack: a client could repeat a call with a body that breaks
// or is too long without limit, whatever is given back and who writes errors.
func TestBrokenBodyIsNotGivenBack(t *testing.T) {
	t.Parallel()
	for _, refund := range []policy.Refund{policy.RefundUnreachable, policy.RefundServerErrors, policy.RefundErrors} {
		for _, header := range []string{"", "Tollgate-Cost"} {
			for _, pass := range []bool{false, true} {
				w := newWorld(t, func(c *policy.Config) {
					e := &c.Endpoints[0]
					e.Patterns = []string{"POST /api/convert/{from}/{amount}/{to}"}
					if c.Refund = refund; header != "" {
						e.CostAnswer = &policy.CostAnswerConfig{Header: header, Reserve: 1}
					}
				})
				passErrors(w.gate, pass)
				bearer := w.account(t, "acc_1")
				w.next = func(_ http.ResponseWriter, r *http.Request) error {
					_, err := io.ReadAll(r.Body)
					return fmt.Errorf("proxy: %w", err)
				}
				for n, fault := range []error{errors.New("reset"), &http.MaxBytesError{Limit: 5}} {
					r := httptest.NewRequest("POST", convert, iotest.ErrReader(fault))
					r.Header.Set("Authorization", "Bearer "+bearer)
					_ = w.gate.Serve(httptest.NewRecorder(), r, w.next) // with errors pass, the refusal
					w.gate.Wait()
					if got := w.used(t, "acc_1", "convert", noon); got != int64(n+1) || w.outcomes["convert refunded"] != 0 {
						t.Errorf("refund %s, cost of header %q, errors pass %t, %v: counted %d, want %d", refund, header, pass, fault, got, n+1)
					}
				}
			}
		}
	}
}

// TestExtendedConnect: a WebSocket over HTTP/2 or HTTP/3 is a CONNECT. For the
// service it is a GET, and so it is for the gate.
func TestExtendedConnect(t *testing.T) {
	w := newWorld(t, func(c *policy.Config) {
		c.Endpoints[0].Upgrade, c.Logins = true, append(c.Logins, "GET /api/enter")
	})
	bearer := w.account(t, "acc_1")
	for _, c := range []struct {
		target, protocol string
		status           int
	}{
		{convert, "websocket", 200}, {"/open", "websocket", 200},
		{"/api/rates/EUR", "websocket", 400}, {"/api/other", "websocket", 404}, {"/api/login", "websocket", 405}, {"/api/enter", "websocket", 400},
		{convert, "connect-udp", 405}, {"/open", "connect-udp", 405}, {convert, "", 405},
	} {
		for proto, major := range map[string]int{"HTTP/2.0": 2, c.protocol: 3} {
			r := httptest.NewRequest("CONNECT", convert, nil)
			r.URL.Path, r.RequestURI = c.target, c.target
			r.Proto, r.ProtoMajor = proto, major
			r.Header = http.Header{"Authorization": {"Bearer " + bearer}}
			if c.protocol != "" {
				r.Header[":protocol"] = []string{c.protocol}
			}
			answer := httptest.NewRecorder()
			if err := w.gate.Serve(answer, r, w.next); err != nil || answer.Code != c.status {
				t.Errorf("%s of %q by HTTP/%d: got %d %s (%v), want %d", c.target, c.protocol, major, answer.Code, answer.Body, err, c.status)
			}
		}
	}
	if n := w.used(t, "acc_1", "convert", noon); n != 2 {
		t.Errorf("counted %d, want 2", n)
	}
	if n := w.used(t, "acc_1", "rates", noon); n != 0 {
		t.Errorf("counted %d, want none", n)
	}
}

// TestBodyAfterTheAnswer: a handler that answers before it has read all of a
// body goes on to read it, also of a login, whose body the gate has read.
func TestBodyAfterTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const body = `{"email":"a@example.com","password":"x"}`
	for _, target := range []string{"/api/login", "/open"} {
		var got []byte
		w.next = func(rw http.ResponseWriter, r *http.Request) error {
			begin := make([]byte, 5)
			_, err := io.ReadFull(r.Body, begin)
			rw.WriteHeader(http.StatusOK)
			rest, restErr := io.ReadAll(r.Body)
			got = append(begin, rest...)
			return errors.Join(err, restErr)
		}
		if answer, err := w.ask("POST", target, body, "Content-Type: application/json"); err != nil || answer.Code != http.StatusOK || string(got) != body {
			t.Errorf("%s: got %d, %v, and the handler read %q", target, answer.Code, err, got)
		}
	}
}
