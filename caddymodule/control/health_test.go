package control_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// TestHealth: the answers are as the document says, which g.call checks.
func TestHealth(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	if got := g.must(t, http.StatusOK, "GET", "/tollgate/health/live", "")["status"]; got != "live" {
		t.Errorf("live: got %v", got)
	}
	expect := func(status int, want string) {
		t.Helper()
		w := g.call(t, "GET", "/tollgate/health/ready", "")
		if got := strings.TrimSpace(w.Body.String()); w.Code != status || got != want {
			t.Errorf("ready: got %d %s, want %d %s", w.Code, got, status, want)
		}
		g.must(t, http.StatusOK, "GET", "/tollgate/health/live", "")
	}
	expect(http.StatusOK, `{"status":"ready","mode":"enforce","since":"2126-11-20T09:00:00Z","checks":[{"name":"store","ok":true,"message":"The store works."}]}`)
	g.Break(errors.New("dial tcp 10.1.2.3:6379: connection refused"))
	expect(http.StatusServiceUnavailable, `{"status":"unavailable","mode":"enforce","since":"2126-11-20T09:00:00Z","checks":[{"name":"store","ok":false,"message":"The store cannot admit calls."}]}`)
	g.Break(store.ErrOpening)
	expect(http.StatusServiceUnavailable, `{"status":"starting","mode":"enforce","since":"2126-11-20T09:00:00Z","checks":[{"name":"store","ok":false,"message":"The store is being opened."}]}`)
}

// TestStoreBeingOpened: all calls say that the gate starts, also those
// that need no store. It is not an error, so it is not logged.
func TestStoreBeingOpened(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Break(store.ErrOpening)
	for _, call := range [][3]string{
		{"GET", "/tollgate/plans", ""},
		{"GET", "/tollgate/accounts", ""},
		{"PUT", "/tollgate/accounts/acc_1", `{"plan":"free"}`},
		{"DELETE", "/tollgate/accounts/acc_1", ""},
		{"POST", "/tollgate/accounts/acc_1/keys", `{"name":"ci"}`},
		{"GET", "/tollgate/accounts/acc_1/usage", ""},
	} {
		w := g.call(t, call[0], call[1], call[2])
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" ||
			!strings.Contains(w.Body.String(), `"code":"unavailable"`) || !strings.Contains(w.Body.String(), "The gate is starting") {
			t.Errorf("%s %s: got %d %v %s", call[0], call[1], w.Code, w.Header(), w.Body)
		}
	}
	if log := g.Log(); log != "" {
		t.Errorf("logged %s", log)
	}
	g.Break(nil)
	g.must(t, http.StatusOK, "GET", "/tollgate/plans", "")
}

// Threat: a path that needs no secret opens one that does. The handler
// behind the check must see nothing but the paths in the list.
func TestPublicPaths(t *testing.T) {
	t.Parallel()
	var seen []string
	handler := control.RequireSecret(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.RequestURI)
	}), controltest.Secret)
	for _, target := range []string{
		"/tollgate/health/live", "/tollgate/health/live?", "/tollgate/health/live/", "/tollgate/health/live/x", "/tollgate/health/live%2F..%2Fplans",
		"/tollgate/health/live/..", "/tollgate/health%2Flive", "/tollgate/health/%6cive", "/tollgate/health//live", "/tollgate/health/LIVE",
		"/tollgate/health/ready", "/tollgate/health/live;x", "/tollgate/plans?/tollgate/health/live", "/tollgate/plans#/tollgate/health/live",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get"} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, target, nil)
			r.Method = method
			handler.ServeHTTP(w, r)
		}
	}
	want := []string{
		"GET /tollgate/health/live", "HEAD /tollgate/health/live", "GET /tollgate/health/live?", "HEAD /tollgate/health/live?",
		"GET /tollgate/health/ready", "HEAD /tollgate/health/ready",
	}
	if got := strings.Join(seen, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("without the secret got through:\n%s", got)
	}
}
