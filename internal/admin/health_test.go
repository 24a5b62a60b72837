package admin_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestHealth: the answers are as the document says, which g.call checks.
func TestHealth(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	if got := g.Must(t, http.StatusOK, "GET", "/tollgate/health/live", "")["status"]; got != "live" {
		t.Errorf("live: got %v", got)
	}
	live := g.Call(t, "GET", "/tollgate/health/live", "").Header()
	if live.Get(api.VersionHeader) != "devel" || live.Get(api.InstanceHeader) != admin.Instance || admin.Instance == "" {
		t.Errorf("live: got %v", live)
	}
	expect := func(status int, want string) {
		t.Helper()
		w := g.Call(t, "GET", "/tollgate/health/ready", "")
		if got := strings.TrimSpace(w.Body.String()); w.Code != status || got != want {
			t.Errorf("ready: got %d %s, want %d %s", w.Code, got, status, want)
		}
		g.Must(t, http.StatusOK, "GET", "/tollgate/health/live", "")
	}
	expect(http.StatusOK, `{"status":"ready","mode":"enforce","since":"2126-11-20T09:00:00Z","checks":[{"name":"store","ok":true,"message":"The store works."}]}`)
	g.Break(errors.New("dial tcp 10.1.2.3:6379: connection refused"))
	expect(http.StatusServiceUnavailable, `{"status":"unavailable","mode":"enforce","since":"2126-11-20T09:00:00Z","checks":[{"name":"store","ok":false,"message":"The store cannot admit calls."}]}`)
	w := httptest.NewRecorder()
	g.InProcess().ServeHTTP(w, admin.AsAdmin(httptest.NewRequest(http.MethodGet, "/tollgate/health/ready", nil)))
	if !strings.Contains(w.Body.String(), `"cause":"dial tcp 10.1.2.3:6379: connection refused"`) {
		t.Errorf("ready for an admin: got %s", w.Body)
	}
	g.Break(store.ErrOpening)
	expect(http.StatusServiceUnavailable, `{"status":"starting","mode":"enforce","since":"2126-11-20T09:00:00Z","checks":[{"name":"store","ok":false,"message":"The store is being opened."}]}`)
}

// Threat: a path that needs no secret opens one that does. The handler
// behind the check must see nothing but the paths in the list.
func TestPublicPaths(t *testing.T) {
	t.Parallel()
	var seen []string
	handler := admin.RequireSecret(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.RequestURI)
	}), controltest.Secret)
	for _, target := range []string{
		"/tollgate/health/live", "/tollgate/health/live?", "/tollgate/health/live/", "/tollgate/health/live/x", "/tollgate/health/live%2F..%2Fplans",
		"/tollgate/health/live/..", "/tollgate/health%2Flive", "/tollgate/health/%6cive", "/tollgate/health//live", "/tollgate/health/LIVE",
		"/tollgate/health/ready", "/tollgate/jwks.json", "/tollgate/jwks.json/", "/tollgate//jwks.json", "/tollgate/jwks.json%00", "/tollgate/health/live;x", "/tollgate/plans?/tollgate/health/live", "/tollgate/plans#/tollgate/health/live",
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
		"GET /tollgate/health/ready", "HEAD /tollgate/health/ready", "GET /tollgate/jwks.json", "HEAD /tollgate/jwks.json",
	}
	if got := strings.Join(seen, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("without the secret got through:\n%s", got)
	}
}
