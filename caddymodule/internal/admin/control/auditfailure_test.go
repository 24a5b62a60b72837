package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// deaf is a store that cannot write the audit log while it fails.
func deaf(fails *atomic.Bool) hooks {
	return hooks{before: func(_ context.Context, step string, _ int) error {
		if step == "AddEntries" && fails.Load() {
			return errors.New("disk is full")
		}
		return nil
	}}
}

// TestAuditFails: a change whose entry is not written is answered with 503, is
// not made and makes no event. A client that sends it again succeeds, and the log
// has that once.
func TestAuditFails(t *testing.T) {
	t.Parallel()
	fails := new(atomic.Bool)
	g := newGateOver(t, deaf(fails))
	g.account(t, "acc_1", "starter")
	key := g.must(t, http.StatusCreated, "POST", "/tollgate/accounts/acc_1/keys", `{"name":"ci"}`)["id"].(string)
	g.must(t, http.StatusCreated, "POST", "/tollgate/accounts/acc_1/keys", `{"kind":"login"}`)
	entries := g.entries(t)

	for _, call := range []struct {
		name, method, target, body string
		again                      int // the status of the second call
		events                     int // of the second call
	}{
		{"account", "PUT", "/tollgate/accounts/acc_1", `{"plan":"business"}`, http.StatusOK, 1},
		{"set limit", "PUT", "/tollgate/accounts/acc_1/limits/all/day", `{"limit":1}`, http.StatusOK, 0},
		{"clear limit", "DELETE", "/tollgate/accounts/acc_1/limits/all/day", "", http.StatusNoContent, 0},
		{"reset", "DELETE", "/tollgate/accounts/acc_1/usage", "", http.StatusNoContent, 0},
		{"create", "POST", "/tollgate/accounts/acc_1/keys", `{"name":"cd"}`, http.StatusCreated, 1},
		{"set", "PATCH", "/tollgate/accounts/acc_1/keys/" + key, `{"name":"ce"}`, http.StatusOK, 0},
		{"rotate", "POST", "/tollgate/accounts/acc_1/keys/" + key + "/rotate", `{"overlap":"1h"}`, http.StatusCreated, 1},
		{"revoke", "DELETE", "/tollgate/accounts/acc_1/keys/" + key, "", http.StatusNoContent, 1},
		{"end logins", "DELETE", "/tollgate/accounts/acc_1/logins", "", http.StatusNoContent, 0},
		{"delete", "DELETE", "/tollgate/accounts/acc_1", "", http.StatusNoContent, 1},
	} {
		before, events := g.state(t), len(g.Published())
		fails.Store(true)
		g.refused(t, http.StatusServiceUnavailable, "unavailable", call.method, call.target, call.body)
		fails.Store(false)
		if got := g.entries(t); got != entries || len(g.Published()) != events || g.state(t) != before {
			t.Errorf("%s: got %d entries, %d events and %s, want %d, %d and %s", call.name, got, len(g.Published()), g.state(t), entries, events, before)
		}
		again := g.call(t, call.method, call.target, call.body).Code
		if got := g.entries(t); again != call.again || got != entries+1 || len(g.Published()) != events+call.events {
			t.Errorf("%s: sent again, got %d, %d entries and %d events, want %d, %d and %d",
				call.name, again, got, len(g.Published()), call.again, entries+1, events+call.events)
		}
		entries = g.entries(t)
	}
}

// TestLoginWithoutEntry: a login adds no entry and does not need the audit log.
func TestLoginWithoutEntry(t *testing.T) {
	t.Parallel()
	fails := new(atomic.Bool)
	g := newGateOver(t, deaf(fails))
	g.account(t, "acc_1", "starter")
	entries := g.entries(t)
	fails.Store(true)
	g.must(t, http.StatusCreated, "POST", keysPath, `{"kind":"login"}`)
	if got := g.entries(t); got != entries || len(g.names(t, "?kind=login")) != 1 {
		t.Errorf("got %d entries and login tokens %v, want %d entries and 1 token", got, g.names(t, "?kind=login"), entries)
	}
}

// state returns what acc_1 has.
func (g *gate) state(t *testing.T) string {
	t.Helper()
	account, err := g.Opened().Account(t.Context(), "acc_1")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := g.Opened().ListKeys(t.Context(), "acc_1")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v %+v", account, keys)
}

// TestNothingChanges: a request that changes nothing, or that is refused, adds
// no entry and no event.
func TestNothingChanges(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	create := func(body string) string {
		return keysPath + "/" + g.must(t, http.StatusCreated, "POST", keysPath, body)["id"].(string)
	}
	live, revoked, login := create(`{"name":"ci"}`), create(`{"name":"cd"}`), create(`{"kind":"login"}`)
	for _, ended := range []string{revoked, login} {
		g.call(t, "DELETE", ended, "")
	}
	g.Advance(24 * time.Hour) // before that, see TestRevokeAgain
	entries, events := g.entries(t), len(g.Published())
	for _, call := range []struct {
		method, target, body string
		status               int
	}{
		{"PUT", "/tollgate/accounts/acc_1", `{"plan":"starter","disabled":false}`, http.StatusOK},
		{"PUT", "/tollgate/accounts/acc_1", `{}`, http.StatusOK},
		{"PATCH", live, `{"name":"ci"}`, http.StatusOK},
		{"DELETE", revoked, "", http.StatusNoContent},
		{"DELETE", login, "", http.StatusNoContent},
		{"POST", keysPath, `{"name":"ci"}`, http.StatusConflict},
		{"POST", revoked + "/rotate", `{}`, http.StatusNotFound},
		{"PATCH", revoked, `{"name":"ce"}`, http.StatusNotFound},
		{"DELETE", "/tollgate/accounts/acc_1/limits/all/day", "", http.StatusNotFound},
		{"DELETE", "/tollgate/accounts/acc_2", "", http.StatusNotFound},
		{"DELETE", "/tollgate/accounts/acc_2/logins", "", http.StatusNotFound},
	} {
		if got := g.call(t, call.method, call.target, call.body).Code; got != call.status {
			t.Errorf("%s %s %s: got %d, want %d", call.method, call.target, call.body, got, call.status)
		}
		if got, told := g.entries(t), len(g.Published()); got != entries || told != events {
			t.Errorf("%s %s %s: got %d entries and %d events, want %d and %d", call.method, call.target, call.body, got, told, entries, events)
		}
	}
}

// TestAuditRace: the entry of a change that was made has the state that the
// change found.
func TestAuditRace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, key string // one of an account, or of a key
		other     func(ctx context.Context, s control.Store, key string) error
		before    string // of the last entry
		entries   int
	}{
		"account": {body: `{"plan":"business"}`, before: `"disabled":true`, entries: 2, other: func(ctx context.Context, s control.Store, _ string) error {
			_, err := s.ChangeAccount(ctx, "acc_1", func(a *store.Account, _ bool) error { a.Disabled = true; return nil })
			return err
		}},
		"the same": {body: `{"plan":"business"}`, before: `"plan":"starter"`, entries: 1, other: func(ctx context.Context, s control.Store, _ string) error {
			_, err := s.ChangeAccount(ctx, "acc_1", func(a *store.Account, _ bool) error { a.Plan = "business"; return nil })
			return err
		}},
		"key": {key: `{"ttl":"1d"}`, before: `"name":"other"`, entries: 2, other: func(ctx context.Context, s control.Store, key string) error {
			_, err := s.ChangeKey(ctx, "acc_1", key, controltest.Start, func(k *store.Key) error { k.Name = "other"; return nil })
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			g.account(t, "acc_1", "starter")
			key := g.must(t, http.StatusCreated, "POST", keysPath, `{"name":"ci"}`)["id"].(string)
			entries, events := g.entries(t), len(g.Published())
			once := new(sync.Once)
			// Another writer is faster than the first change that is recorded.
			faster := hooks{after: func(step string, err error) error {
				if step == "AddEntries" {
					once.Do(func() { err = errors.Join(err, c.other(t.Context(), g.Opened(), key)) })
				}
				return err
			}}
			g.handler = control.RequireSecret(control.New(over{g.Gate, faster}, slog.New(slog.DiscardHandler)), controltest.Secret)
			if c.key != "" {
				g.must(t, http.StatusOK, "PATCH", keysPath+"/"+key, c.key)
			} else {
				g.must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", c.body)
			}
			list, err := g.Opened().ListEntries(t.Context(), "acc_1", controltest.Start.AddDate(0, 0, -1), store.EntryID{}, 1000)
			if err != nil || len(list) != entries+c.entries || !strings.Contains(string(list[len(list)-1].Before), c.before) {
				t.Fatalf("got %d entries, the last %s, %v; want %d and %s", len(list), list[len(list)-1].Before, err, entries+c.entries, c.before)
			}
			told := g.Published()[events:]
			if want := map[string]int{"account": 1}[name]; len(told) != want || want == 1 && told[0].ID != list[len(list)-1].ID.String() {
				t.Errorf("got events %+v, want %d", told, want)
			}
		})
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
	g := newGateOver(t, deaf(fails))
	r := httptest.NewRequest(http.MethodPost, "/tollgate/accounts", strings.NewReader(`{"account":"acc_1"}`+"\n"+`{"account":"acc_1"}`+"\nx\n"))
	r.Header.Set("Authorization", "Bearer "+controltest.Secret)
	r.Header.Set("Content-Type", api.LinesType)
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	if w.Code != http.StatusOK || len(lines) != 3 || strings.Count(w.Body.String(), `"status":503`) != 2 || !strings.Contains(lines[2], `"status":400`) {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
	if _, err := g.Opened().Account(t.Context(), "acc_1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the account was made: %v", err)
	}
	if len(g.Published()) != 0 || g.entries(t) != 0 {
		t.Errorf("got events %v and %d entries, want none", g.Published(), g.entries(t))
	}
}
