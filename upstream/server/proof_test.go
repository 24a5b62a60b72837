package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
)

// Threat: a stranger forges requests until each reason for a refusal was
// logged. A secret that differs later is logged all the same.
func TestForgeriesHideNoLaterMistake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const host = "rates.example"
		ours, theirs := signer(t, "a-secret-of-at-least-32-characters"), signer(t, "another-secret-of-32-characters!!")
		key, err := assertion.NewKey("a-secret-of-at-least-32-characters")
		if err != nil {
			t.Fatal(err)
		}
		var log lines
		check := CheckAssertion(assertion.NewVerifier(func(h string) bool { return h == host }, time.Now, key))
		gate := newGatekeeper(check, slog.New(slog.NewTextHandler(&log, nil)))
		handler := gate.require(assertion.Call, http.NotFoundHandler())
		refused := func(assertions ...string) (logged string) {
			t.Helper()
			log.take()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header["Tollgate-Assertion"] = assertions
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden {
				t.Errorf("got %d, want 403", w.Code)
			}
			return log.take()
		}
		by := assertion.Caller{Account: "acc_1"}
		reasons := map[string][]string{
			"exactly one":                     {"x", "x"},
			"not a token signed by ":          {"x"},
			"not signed with the key of this": {theirs.Call([32]byte{}, host, by, time.Now())},
			"for another host":                {ours.Call([32]byte{}, "www.example", by, time.Now())},
			"for another purpose":             {ours.Login(host, time.Now())},
			"expired":                         {ours.Call([32]byte{}, host, by, time.Now().Add(-time.Hour))},
		}
		for words, assertions := range reasons {
			if got := refused(assertions...); strings.Count(got, "\n") != 1 || !strings.Contains(got, words) || len(assertions[0]) > 1 && strings.Contains(got, assertions[0]) {
				t.Errorf("%s: the log says %q", words, got)
			}
			if got := refused(assertions...); got != "" {
				t.Errorf("%s, at once again: the log says %q", words, got)
			}
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait() // for the lines of timers
		if got := refused(theirs.Call([32]byte{}, host, by, time.Now())); !strings.Contains(got, "not signed with the key of this") {
			t.Errorf("another secret, a day later: the log says %q", got)
		}
	})
}

// lines are a log that timers write as well.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// take returns what was logged since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.text)
	l.text = nil
	return text
}

func signer(t *testing.T, secret string) *assertion.Signer {
	t.Helper()
	key, err := assertion.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	made, err := assertion.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
