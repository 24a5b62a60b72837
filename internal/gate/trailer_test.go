package gate_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Threat: a handler sets trailers with headers of the gate and deletes as
// many other headers, so that the number of headers does not change.
func TestTrailersOfHandlers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	w.next = func(w http.ResponseWriter, _ *http.Request) error {
		h := w.Header()
		h.Set("X-First", "1")
		h.Set("X-Second", "2")
		w.WriteHeader(http.StatusOK)
		h.Del("X-First")
		h.Del("X-Second")
		h.Set(http.TrailerPrefix+"Tollgate-Assertion", "evil")
		h.Set("Tollgate-Key", "evil")
		return nil
	}
	for where, r := range map[string]*http.Request{
		"endpoint": httptest.NewRequest("GET", convert, nil),
		"outside":  httptest.NewRequest("GET", "/page", nil),
		"login":    httptest.NewRequest("POST", "/api/login", strings.NewReader(`{"email":"a@example.com"}`)),
	} {
		r.Header.Set("Authorization", "Bearer "+bearer)
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		if err := w.gate.Serve(answer, marked(r), w.next); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("%s: got %d, %v", where, answer.Code, err)
		}
		for name, values := range answer.Header() {
			if strings.Contains(name, "Tollgate") {
				t.Errorf("%s: the client gets the trailer %s: %v", where, name, values)
			}
		}
	}
}
