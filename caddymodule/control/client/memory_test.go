package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// answering returns a client of a handler, and the number of its requests.
func answering(handler http.HandlerFunc) (*client.Client, *atomic.Int64) {
	seen := new(atomic.Int64)
	return client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		handler(w, r)
	})), seen
}

// Body and headers pass in both directions.
func TestInProcessPassesAll(t *testing.T) {
	t.Parallel()
	var got http.Request
	var body []byte
	c, _ := answering(func(w http.ResponseWriter, r *http.Request) {
		got = *r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusConflict)
		w.WriteHeader(http.StatusOK) // too late
		io.WriteString(w, `{"message":"No.",`)
		io.WriteString(w, `"code":"no"}`)
	})
	_, err := c.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("starter")})
	var refused *apierror.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusConflict || refused.Code != "no" || refused.Message != "No." {
		t.Fatalf("got %v", err)
	}
	if got.Method != "PUT" || got.RequestURI != "/tollgate/accounts/acc_1" || got.URL.Path != got.RequestURI || got.Host != "localhost" ||
		got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Authorization") != "" || string(body) != `{"plan":"starter"}` {
		t.Errorf("the handler got %+v with %s", &got, body)
	}
	if _, err := c.Accounts(t.Context(), api.AccountQuery{After: "a/b", Limit: 3}); err == nil || got.RequestURI != "/tollgate/accounts?after=a%2Fb&limit=3" || len(body) != 0 {
		t.Errorf("got %q with %q, %v", got.RequestURI, body, err)
	}
}

// A panic is an error with its stack, as it is over a connection.
func TestInProcessPanic(t *testing.T) {
	t.Parallel()
	c, _ := answering(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent) // is not an answer any more
		panicsHere()
	})
	err := c.EndLogins(t.Context(), "acc_1")
	if !errors.Is(err, client.ErrUnreachable) || !strings.Contains(err.Error(), "panicked: out of order") || !strings.Contains(err.Error(), "panicsHere") {
		t.Errorf("got %v", err)
	}
}

func panicsHere() { panic("out of order") }

// An ended context is an error, and a call that has not begun is not made.
func TestInProcessContext(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	c, seen := answering(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		w.WriteHeader(http.StatusNoContent)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	for range 2 {
		if err := c.EndLogins(ctx, "acc_1"); !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	if n := seen.Load(); n != 1 {
		t.Errorf("the handler saw %d calls, want 1", n)
	}
}
