package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
)

// answering returns a client of a handler, and the number of its requests.
func answering(handler http.HandlerFunc) (*client.Client, *atomic.Int64) {
	seen := new(atomic.Int64)
	return client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		handler(w, r)
	})), seen
}

// A client in memory gets the answers that one over a connection gets.
func TestInProcess(t *testing.T) {
	t.Parallel()
	gate, ctx := controltest.New(t), t.Context()
	memory := client.InProcess(control.New(gate, slog.New(slog.DiscardHandler)))
	network := connect(t, gate.Serve(t), controltest.Secret)
	if _, err := memory.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("starter")}); err != nil {
		t.Fatal(err)
	}
	key, err := memory.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "ci", Abilities: []string{"convert"}})
	if err != nil || !strings.HasPrefix(key.Token, "tgk_") {
		t.Fatal(key, err)
	}
	for name, call := range map[string]func(c *client.Client) (any, error){
		"plans":       func(c *client.Client) (any, error) { return c.Plans(ctx) },
		"public keys": func(c *client.Client) (any, error) { return c.PublicKeys(ctx) },
		"account":     func(c *client.Client) (any, error) { return c.Account(ctx, "acc_1") },
		"list":        func(c *client.Client) (any, error) { return c.Accounts(ctx, "acc_0", 1) },
		"keys":        func(c *client.Client) (any, error) { return c.Keys(ctx, "acc_1", client.KeyFilter{Revoked: true}) },
		"usage":       func(c *client.Client) (any, error) { return c.Usage(ctx, "acc_1", 7) },
		"readiness":   func(c *client.Client) (any, error) { return c.Readiness(ctx) },
		"not found":   func(c *client.Client) (any, error) { return c.Account(ctx, "acc_2") },
		"unknown plan": func(c *client.Client) (any, error) {
			return c.PutAccount(ctx, "a", api.AccountChange{Plan: new("gold")})
		},
		"strange id": func(c *client.Client) (any, error) { return c.Account(ctx, "../plans") },
		"long body": func(c *client.Client) (any, error) {
			return c.PutAccount(ctx, "a", api.AccountChange{Plan: new(strings.Repeat("x", 1<<16))})
		},
		"no such key":   func(c *client.Client) (any, error) { return nil, c.RevokeKey(ctx, "acc_1", "key_x") },
		"end logins":    func(c *client.Client) (any, error) { return nil, c.EndLogins(ctx, "acc_1") },
		"no such limit": func(c *client.Client) (any, error) { return nil, c.ClearLimit(ctx, "acc_1", "convert", "month") },
	} {
		got, gotErr := call(memory)
		want, wantErr := call(network)
		if diff := cmp.Diff(want, got); diff != "" || code(gotErr) != code(wantErr) {
			t.Errorf("%s: got %v, want %v (-network +memory):\n%s", name, gotErr, wantErr, diff)
		}
	}
	gate.Break(errors.New("the disk is gone"))
	_, gotErr := memory.Account(ctx, "acc_1")
	_, wantErr := network.Account(ctx, "acc_1")
	var got, want *apierror.Error
	if !errors.As(gotErr, &got) || !errors.As(wantErr, &want) || got.Status != 503 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("with a broken store: got %v, want %v", gotErr, wantErr)
	}
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
	if _, err := c.Accounts(t.Context(), "a/b", 3); err == nil || got.RequestURI != "/tollgate/accounts?after=a%2Fb&limit=3" || len(body) != 0 {
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

// A gate does not redirect: the client follows nothing.
func TestInProcessRedirect(t *testing.T) {
	t.Parallel()
	c, seen := answering(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/tollgate/plans", http.StatusTemporaryRedirect)
	})
	if _, err := c.Plans(t.Context()); !errors.Is(err, client.ErrUnreachable) || seen.Load() != 1 {
		t.Errorf("got %v after %d calls", err, seen.Load())
	}
}

// An answer that no gate gives is an error.
func TestInProcessNonsense(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"nothing":  func(http.ResponseWriter, *http.Request) {},
		"page":     func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"too long": func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 9<<20)) },
	} {
		c, _ := answering(handler)
		if _, err := c.Plans(t.Context()); !errors.Is(err, client.ErrUnreachable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Calls at the same time get their own answers, and leave no goroutine.
func TestInProcessConcurrently(t *testing.T) {
	ignored := goleak.IgnoreCurrent()
	c, seen := answering(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"account":%q}`, strings.TrimPrefix(r.URL.Path, "/tollgate/accounts/"))
	})
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 100 {
				id := fmt.Sprintf("acc_%d_%d", caller, i)
				if got, err := c.Account(t.Context(), id); err != nil || got.Account != id {
					t.Errorf("got %v, %v, want %s", got.Account, err, id)
				}
			}
		})
	}
	callers.Wait()
	if n := seen.Load(); n != 800 {
		t.Errorf("the handler saw %d calls, want 800", n)
	}
	goleak.VerifyNone(t, ignored)
}
