package control_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// leaving is a backend whose client goes away while an entry of the audit log
// is written. It refuses to work for a context that has ended, as a store over
// a network does.
type leaving struct {
	*controltest.Gate
	leave context.CancelFunc
}

func (l leaving) Store() (control.Store, error) {
	opened, err := l.Gate.Store()
	return leavingStore{opened, l.leave}, err
}

func (l leaving) Publish(ctx context.Context, change event.Change) {
	if ctx.Err() == nil {
		l.Gate.Publish(ctx, change)
	}
}

type leavingStore struct {
	control.Store
	leave context.CancelFunc
}

func (s leavingStore) AddEntries(ctx context.Context, entries []store.Entry) error {
	s.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.AddEntries(ctx, entries)
}

func (s leavingStore) ChangeAccounts(ctx context.Context, ids []string, change func(int, *store.Account, bool) error) ([]store.Account, []error) {
	if err := ctx.Err(); err != nil {
		return make([]store.Account, len(ids)), slices.Repeat([]error{err}, len(ids))
	}
	return s.Store.ChangeAccounts(ctx, ids, change)
}

func (s leavingStore) RevokeKey(ctx context.Context, account, id string, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.RevokeKey(ctx, account, id, at)
}

// TestClientGone: a change whose client goes away has its entry, is made, and
// has its event.
func TestClientGone(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	key := keysPath + "/" + g.issue(t, `{"name":"ci"}`).ID
	for _, call := range []struct{ method, target, media, body string }{
		{"PUT", "/tollgate/accounts/acc_1", "application/json", `{"label":"Customer 1"}`},
		{"POST", "/tollgate/accounts", "application/jsonl", `{"account":"acc_1","label":"Customer 2"}`},
		{"DELETE", key, "", ""},
	} {
		entries, events := g.entries(t), len(g.Published())
		ctx, leave := context.WithCancel(t.Context())
		handler := control.New(leaving{g.Gate, leave}, slog.New(slog.DiscardHandler))
		r := httptest.NewRequestWithContext(ctx, call.method, call.target, strings.NewReader(call.body))
		if call.media != "" {
			r.Header.Set("Content-Type", call.media)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 300 || strings.Contains(w.Body.String(), `"code"`) {
			t.Errorf("%s %s: got %d: %s", call.method, call.target, w.Code, w.Body)
		}
		if ctx.Err() == nil || g.entries(t) != entries+1 || len(g.Published()) != events+1 {
			t.Errorf("%s %s: got %d entries and %d events, want one more than %d and %d",
				call.method, call.target, g.entries(t), len(g.Published()), entries, events)
		}
	}
	account, err := g.Opened().Account(t.Context(), "acc_1")
	if err != nil || account.Label != "Customer 2" {
		t.Errorf("got %+v, %v", account, err)
	}
	if names := g.names(t, ""); len(names) != 0 {
		t.Errorf("live keys: got %q, want none", names)
	}
}
