package web_test

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// journal is a log that tests read.
type journal struct {
	mu      sync.Mutex
	written strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.written.Write(b)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.written.String()
}

// wantNone fails the test if anything was logged: what people do wrong is
// told to them, and wakes nobody.
func (j *journal) wantNone(t *testing.T) {
	t.Helper()
	if text := j.text(); text != "" {
		t.Errorf("the log says %q, want nothing", text)
	}
}

func newLoggedWorld(t *testing.T, edit ...func(*web.Config)) (*world, *journal) {
	t.Helper()
	j := &journal{}
	logged := func(c *web.Config) { c.Logger = slog.New(slog.NewTextHandler(j, nil)) }
	return newWorld(t, append([]func(*web.Config){logged}, edit...)...), j
}

// A page that is there, asked for in a way that it is not.
func TestWrongMethod(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for request, want := range map[string]string{
		"POST /usage":                     "GET, HEAD",
		"DELETE /settings/keys/some":      "GET, HEAD",
		"PUT /settings/password":          "GET, HEAD, POST",
		"OPTIONS /settings/keys/x/rotate": "GET, HEAD, POST",
		"GET /logout":                     "POST",
	} {
		method, target, _ := strings.Cut(request, " ")
		got := ada.do(method, target, nil)
		got.has(t, http.StatusMethodNotAllowed, "This page does not allow that", "ada@example.com", `href="/">Go to the front page`)
		if allow := got.header.Get("Allow"); allow != want {
			t.Errorf("%s: allows %q, want %q", request, allow, want)
		}
	}
	for _, request := range []string{"PUT /nothing", "PUT /usage/", "POST /signup"} {
		method, target, _ := strings.Cut(request, " ")
		if got := ada.do(method, target, nil); got.status != http.StatusNotFound || got.header.Get("Allow") != "" {
			t.Errorf("%s: got %d %q, want 404", request, got.status, got.header.Get("Allow"))
		}
	}
	log.wantNone(t)
}
