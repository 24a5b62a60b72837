package control_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// emitting is a backend that stores and emits events as a gate does.
type emitting struct {
	over
	emitter *event.Emitter
}

func (e emitting) Publish(ctx context.Context, change event.Change) { e.emitter.Publish(ctx, change) }

// emitter returns an Emitter on the store of the gate, and the types of the
// events that were new.
func (g *gate) emitter(t *testing.T) (*event.Emitter, *[]string) {
	t.Helper()
	var mu sync.Mutex
	emitted := new([]string)
	emitter, err := event.NewEmitter(event.EmitterOptions{
		Store: func() (store.Events, error) { return g.Opened(), nil }, Backlog: func() *event.Backlog { return nil },
		Queued: func(string) bool { return true }, Dropped: func(int) {}, Logger: zap.NewNop(),
		Emit: func(kind string, _ map[string]any) {
			mu.Lock()
			defer mu.Unlock()
			*emitted = append(*emitted, kind)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return emitter, emitted
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
			emitter, emitted := g.emitter(t)
			arrived := new(sync.WaitGroup)
			arrived.Add(requests)
			// Each request has read the state before the changes.
			together := hooks{before: func(_ context.Context, step string, _ int) error {
				if step == "AddEntries" {
					arrived.Done()
					arrived.Wait()
				}
				return nil
			}}
			backend := emitting{over{g.Gate, together}, emitter}
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
			if !slices.Equal(*emitted, []string{c.event}) {
				t.Errorf("got events %v, want one %s", *emitted, c.event)
			}
			if n, err := g.Opened().QueuedEvents(t.Context()); err != nil || n != 1 {
				t.Errorf("got %d queued events, %v, want one", n, err)
			}
		})
	}
}

// TestRevokeAgain: a revocation that was made but answered with 503 has its
// event when the client sends it again, once.
func TestRevokeAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		later time.Duration
		want  []string
	}{
		"soon": {time.Hour, []string{event.KeyRevoked}},
		"late": {24 * time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, loses := newGate(t), new(atomic.Bool)
			g.account(t, "acc_1", "starter")
			key := keysPath + "/" + g.issue(t, `{"name":"ci"}`).ID
			emitter, emitted := g.emitter(t)
			forgetful := hooks{after: func(step string, err error) error {
				if step == "RevokeKey" && loses.Load() {
					return errors.Join(store.ErrUnavailable, err)
				}
				return err
			}}
			backend := emitting{over{g.Gate, forgetful}, emitter}
			g.handler = control.RequireSecret(control.New(backend, slog.New(slog.DiscardHandler)), controltest.Secret)
			loses.Store(true)
			g.refused(t, http.StatusServiceUnavailable, "unavailable", "DELETE", key, "")
			loses.Store(false)
			entries := g.entries(t)
			g.Advance(c.later)
			for range 3 {
				if got := g.call(t, "DELETE", key, "").Code; got != http.StatusNoContent {
					t.Errorf("got %d", got)
				}
			}
			if !slices.Equal(*emitted, c.want) || g.entries(t) != entries {
				t.Errorf("got events %v and %d entries, want %v and %d", *emitted, g.entries(t), c.want, entries)
			}
		})
	}
}

// TestRevokeRotated: a key that ended because it was rotated has no event of
// a revocation, and neither has a login token.
func TestRevokeRotated(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	key := keysPath + "/" + g.issue(t, `{"name":"ci"}`).ID
	g.Advance(time.Second)
	g.must(t, http.StatusCreated, "POST", key+"/rotate", `{}`)
	login := keysPath + "/" + g.issue(t, `{"kind":"login"}`).ID
	events := len(g.Published())
	for _, ended := range []string{key, login, login} {
		if got := g.call(t, "DELETE", ended, "").Code; got != http.StatusNoContent {
			t.Errorf("got %d", got)
		}
	}
	if told := g.Published()[events:]; len(told) != 0 {
		t.Errorf("got events %+v, want none", told)
	}
}
