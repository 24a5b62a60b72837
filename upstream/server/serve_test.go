package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
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
