package gate_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/gate"
)

// upstream checks assertions as a service at example.com does.
func (w *world) upstream(t *testing.T) *assertion.Verifier {
	t.Helper()
	key, err := assertion.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return assertion.NewVerifier(func(host string) bool { return host == "example.com" }, w.clock, key)
}

// mark is what the server keeps of a request.
func mark(r *http.Request) *gate.Call { return markOf(r).Call() }

// The server is told whose call was let through, in a place that clients
// cannot write; a login is the call of no account. A call that failed and a
// login whose attempt is settled lose mark and assertion. Handlers in front of
// the gate see neither.
func TestMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer, service := w.account(t, "acc_1"), w.upstream(t)
	for _, c := range []struct {
		method, target, body, purpose string
		header                        []string
	}{
		{"GET", convert, "", assertion.Call, []string{"Authorization", "Bearer " + bearer}},
		{"POST", "/api/login", person, assertion.Login, []string{"Content-Type", "application/json"}},
	} {
		for _, failing := range []bool{false, true} {
			r := marked(httptest.NewRequest(c.method, c.target, strings.NewReader(c.body)))
			r.Header.Set(c.header[0], c.header[1])
			err := w.gate.Serve(httptest.NewRecorder(), r, handlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
				if call := mark(r); call == nil {
					t.Errorf("%s: no mark", c.target)
				} else if c.purpose == assertion.Call && call != w.last {
					t.Errorf("%s: the mark is another call", c.target)
				}
				if _, err := service.Verify(r.Header.Get(assertion.Header), c.purpose); err != nil {
					t.Errorf("%s: %v", c.target, err)
				}
				if failing {
					return failure(http.StatusTeapot)
				}
				return nil
			}))
			if failing != (err != nil) {
				t.Errorf("%s, failing %t: got %v", c.target, failing, err)
			}
			if mark(r) != nil || r.Header.Get(assertion.Header) != "" {
				t.Errorf("%s, failing %t: in front of the gate, mark %v, %v", c.target, failing, mark(r), r.Header)
			}
			var failed failure
			if failing && !errors.As(err, &failed) {
				t.Errorf("%s: got %v", c.target, err)
			}
		}
	}
}
