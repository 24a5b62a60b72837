package control_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// deaf is a store that cannot write the audit log while it fails.
type deaf struct {
	control.Store
	fails *atomic.Bool
}

func (d deaf) AddEntries(ctx context.Context, entries []store.Entry) error {
	if d.fails.Load() {
		return errors.New("disk is full")
	}
	return d.Store.AddEntries(ctx, entries)
}

// TestAuditFails: a change whose entry is not written is answered with 503 and
// tells nobody. It is made; a client that sends it again sees its result, and
// the log has that.
func TestAuditFails(t *testing.T) {
	t.Parallel()
	fails := new(atomic.Bool)
	g := newGateOver(t, func(s control.Store) control.Store { return deaf{s, fails} })
	g.account(t, "acc_1", "starter")
	g.must(t, http.StatusCreated, "POST", "/tollgate/accounts/acc_1/keys", `{"name":"ci"}`)
	key := g.must(t, http.StatusOK, "GET", "/tollgate/accounts/acc_1/keys", "")["keys"].([]any)[0].(map[string]any)["id"].(string)
	entries, events := g.entries(t), len(g.Published())

	for _, call := range []struct {
		name, method, target, body string
		again                      int // the status of the second call
		entries                    int // what the second call adds
	}{
		{"account", "PUT", "/tollgate/accounts/acc_1", `{"plan":"business"}`, http.StatusOK, 1},
		{"limit", "PUT", "/tollgate/accounts/acc_1/limits/all/day", `{"limit":1}`, http.StatusOK, 1},
		{"create", "POST", "/tollgate/accounts/acc_1/keys", `{"name":"cd"}`, http.StatusConflict, 0},
		{"set", "PATCH", "/tollgate/accounts/acc_1/keys/" + key, `{"name":"ce"}`, http.StatusOK, 1},
		{"revoke", "DELETE", "/tollgate/accounts/acc_1/keys/" + key, "", 0, -1},
		{"delete", "DELETE", "/tollgate/accounts/acc_1", "", http.StatusNotFound, 0},
	} {
		fails.Store(true)
		g.refused(t, http.StatusServiceUnavailable, "unavailable", call.method, call.target, call.body)
		fails.Store(false)
		if got := g.entries(t); got != entries || len(g.Published()) != events {
			t.Errorf("%s: got %d entries and %d events, want %d and %d", call.name, got, len(g.Published()), entries, events)
		}
		again := g.call(t, call.method, call.target, call.body).Code
		added := g.entries(t) - entries
		if call.again != 0 && again != call.again || call.entries >= 0 && added != call.entries {
			t.Errorf("%s: sent again, got %d and %d entries, want %d and %d", call.name, again, added, call.again, call.entries)
		}
		entries, events = g.entries(t), len(g.Published())
	}
}

// entries returns how many entries the audit log has.
func (g *gate) entries(t *testing.T) int {
	t.Helper()
	list, err := g.Opened().ListEntries(t.Context(), "", controltest.Start.AddDate(0, 0, -1), store.EntryID{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestImportAuditFails: the lines of the batch have 503, and so have those
// after them, which are not applied.
func TestImportAuditFails(t *testing.T) {
	t.Parallel()
	fails := new(atomic.Bool)
	fails.Store(true)
	g := newGateOver(t, func(s control.Store) control.Store { return deaf{s, fails} })
	r := httptest.NewRequest(http.MethodPost, "/tollgate/accounts", strings.NewReader(`{"account":"acc_1"}`+"\n"+`{"account":"acc_1"}`+"\nx\n"))
	r.Header.Set("Authorization", "Bearer "+controltest.Secret)
	r.Header.Set("Content-Type", api.LinesType)
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	if w.Code != http.StatusOK || len(lines) != 3 || strings.Count(w.Body.String(), `"status":503`) != 2 || !strings.Contains(lines[2], `"status":400`) {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
	if len(g.Published()) != 0 || g.entries(t) != 0 {
		t.Errorf("got events %v and %d entries, want none", g.Published(), g.entries(t))
	}
}
