package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/server"
)

// A request that is under way when the end is asked for is finished, and
// no new one is taken.
func TestServeEndsGracefully(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	began, finish := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		_, _ = io.WriteString(w, "whole")
	})
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener, handler, slog.New(slog.DiscardHandler)) }()

	type result struct {
		body string
		err  error
	}
	answered := make(chan result, 1)
	address := "http://" + listener.Addr().String()
	go func() {
		answer, err := http.Get(address)
		if err != nil {
			answered <- result{"", err}
			return
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		answered <- result{string(body), err}
	}()
	<-began
	end()
	// The listener closes first; until then connections may be accepted.
	for {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	close(finish)
	if got := <-answered; got.err != nil || got.body != "whole" {
		t.Errorf("the request under way: got %+v", got)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}

// TestHeadersAreBounded: the headers of a request have at most 68 KiB. The
// request line counts, too.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener, http.NotFoundHandler(), slog.New(slog.DiscardHandler)) }()
	for size, want := range map[int]int{60 << 10: http.StatusNotFound, 68 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("x", size))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%d bytes: got %d, want %d", size, answer.StatusCode, want)
		}
	}
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

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
