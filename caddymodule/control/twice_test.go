package control_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// emitting is a backend that stores and emits events as a gate does.
type emitting struct {
	over
	emitter *event.Emitter
}

func (e emitting) Publish(ctx context.Context, change event.Change) { e.emitter.Publish(ctx, change) }

// together is a store that writes no entry of the audit log before all
// requests are about to write one: each has read the state before the changes.
type together struct {
	control.Store
	arrived *sync.WaitGroup
}

func (s together) AddEntries(ctx context.Context, entries []store.Entry) error {
	s.arrived.Done()
	s.arrived.Wait()
	return s.Store.AddEntries(ctx, entries)
}

// TestAtTheSameTime: requests that make the same change at the same time make
// one event.
func TestAtTheSameTime(t *testing.T) {
	t.Parallel()
	const requests = 8
	for name, c := range map[string]struct {
		method, target, body string // "" is the key
		event                string
	}{
		"revoke":  {"DELETE", "", "", event.KeyRevoked},
		"rotate":  {"POST", "/rotate", "", event.KeyRotated},
		"delete":  {"DELETE", "/tollgate/accounts/acc_1", "", event.AccountChanged},
		"disable": {"PUT", "/tollgate/accounts/acc_1", `{"disabled":true}`, event.AccountChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			g.account(t, "acc_1", "starter")
			key := keysPath + "/" + g.issue(t, `{"name":"ci"}`).ID
			var mu sync.Mutex
			var emitted []string
			emitter, err := event.NewEmitter(event.EmitterOptions{
				Store: func() (store.Events, error) { return g.Opened(), nil }, Backlog: func() *event.Backlog { return nil }, Queued: func(string) bool { return true },
				Emit: func(kind string, _ map[string]any) {
					mu.Lock()
					defer mu.Unlock()
					emitted = append(emitted, kind)
				},
				Dropped: func(int) {}, Logger: zap.NewNop(),
			})
			if err != nil {
				t.Fatal(err)
			}
			arrived := new(sync.WaitGroup)
			arrived.Add(requests)
			backend := emitting{over{g.Gate, func(s control.Store) control.Store { return together{s, arrived} }}, emitter}
			g.handler = control.RequireSecret(control.New(backend, slog.New(slog.DiscardHandler)), controltest.Secret)
			answers := make([]*httptest.ResponseRecorder, requests)
			var running sync.WaitGroup
			for i := range requests {
				running.Go(func() {
					target := c.target
					if target == "" || target == "/rotate" {
						target = key + target
					}
					answers[i] = g.call(t, c.method, target, c.body)
				})
			}
			running.Wait()
			if !slices.ContainsFunc(answers, func(w *httptest.ResponseRecorder) bool { return w.Code < http.StatusMultipleChoices }) {
				t.Errorf("no request succeeded: %d %s", answers[0].Code, answers[0].Body)
			}
			if !slices.Equal(emitted, []string{c.event}) {
				t.Errorf("got events %v, want one %s", emitted, c.event)
			}
			if n, err := g.Opened().QueuedEvents(t.Context()); err != nil || n != 1 {
				t.Errorf("got %d queued events, %v, want one", n, err)
			}
		})
	}
}
