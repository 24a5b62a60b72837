package server_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/server"
)

// panicking is a page that panics in several ways.
func panicking(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Set-Cookie", "half=done")
	switch r.URL.Path {
	case "/written":
		_, _ = io.WriteString(w, "half of an ans")
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
	case "/status":
		w.WriteHeader(http.StatusOK)
	case "/hint":
		w.WriteHeader(http.StatusEarlyHints)
	case "/abort":
		panic(http.ErrAbortHandler)
	}
	panic("something unheard of")
}

func TestPanics(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *server.Config) { c.Pages = http.HandlerFunc(panicking) })
	web := httptest.NewServer(s)
	defer web.Close()

	for _, path := range []string{"/", "/hint"} {
		answer, err := http.Get(web.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), `"code":"internal"`) ||
			strings.Contains(string(body), "unheard") || answer.Header.Get("Set-Cookie") != "" || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %d %v %s, want a bare 500", path, answer.StatusCode, answer.Header, body)
		}
	}
	if log := s.log.String(); !strings.Contains(log, "something unheard of") || !strings.Contains(log, "panicking") {
		t.Errorf("got log %q, want the reason and the stack", log)
	}
	// The connection of a partial answer is closed, so that no client mistakes
	// it for a complete one.
	for _, path := range []string{"/written", "/status", "/abort"} {
		answer, err := http.Get(web.URL + path)
		if err == nil {
			_, err = io.ReadAll(answer.Body)
			err = errors.Join(err, answer.Body.Close())
		}
		if err == nil {
			t.Errorf("%s: got a whole answer", path)
		}
	}
}
