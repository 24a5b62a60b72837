package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// outcome is what a change left behind: how many entries and events are new.
type outcome struct{ entries, events int }

// TestStoreFails: a change, its entry and its event agree when the store fails
// before the change, or loses the answer of a change that was made. The answer
// is 503. A client that sends it again makes nothing twice.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(map[bool]string{false: "before", true: "lost answer"}[lost], func(t *testing.T) {
			t.Parallel()
			s := new(steps)
			g := newGateOver(t, s)
			g.account(t, "acc_1", "starter")
			key := g.must(t, http.StatusCreated, "POST", keysPath, `{"name":"ci"}`)["id"].(string)
			g.must(t, http.StatusCreated, "POST", keysPath, `{"kind":"login"}`)
			for _, call := range []struct {
				name, method, target, body string
				change                     outcome
				again, afterLost           int // the status of the second call, if the first was not made, and if it was
			}{
				{"account", "PUT", "/tollgate/accounts/acc_1", `{"plan":"business"}`, outcome{1, 1}, http.StatusOK, http.StatusOK},
				{"set limit", "PUT", "/tollgate/accounts/acc_1/limits/all/day", `{"limit":1}`, outcome{1, 0}, http.StatusOK, http.StatusOK},
				{"clear limit", "DELETE", "/tollgate/accounts/acc_1/limits/all/day", "", outcome{1, 0}, http.StatusNoContent, http.StatusNotFound},
				{"create", "POST", keysPath, `{"name":"cd"}`, outcome{1, 1}, http.StatusCreated, http.StatusConflict},
				{"create with an account", "POST", "/tollgate/accounts/acc_2/keys", `{"name":"cd"}`, outcome{2, 2}, http.StatusCreated, http.StatusConflict},
				{"set", "PATCH", keysPath + "/" + key, `{"name":"ce"}`, outcome{1, 0}, http.StatusOK, http.StatusOK},
				{"rotate", "POST", keysPath + "/" + key + "/rotate", `{"overlap":"1h"}`, outcome{1, 1}, http.StatusCreated, http.StatusConflict},
				{"revoke", "DELETE", keysPath + "/" + key, "", outcome{1, 1}, http.StatusNoContent, http.StatusNoContent},
				{"end logins", "DELETE", "/tollgate/accounts/acc_1/logins", "", outcome{1, 0}, http.StatusNoContent, http.StatusNoContent},
				{"delete", "DELETE", "/tollgate/accounts/acc_1", "", outcome{1, 1}, http.StatusNoContent, http.StatusNotFound},
			} {
				if call.name == "create with an account" {
					g.giveFreeAccess(t)
				}
				g.Advance(time.Second)
				state, entries, events := g.state(t), g.entries(t), len(g.Published())
				check := func(when string, want outcome) {
					t.Helper()
					g.Follow()
					if got := (outcome{g.entries(t) - entries, len(g.Published()) - events}); got != want {
						t.Errorf("%s: %s, got %+v, want %+v", call.name, when, got, want)
					}
				}
				if lost {
					s.after = func(errs []error) { errs[0] = store.ErrUnavailable }
				} else {
					s.before = func(context.Context, []string) error { return errors.New("disk is full") }
				}
				g.refused(t, http.StatusServiceUnavailable, "unavailable", call.method, call.target, call.body)
				*s = steps{Engine: s.Engine}
				if made := g.state(t) != state; made != lost {
					t.Errorf("%s: got %s, before it was %s", call.name, g.state(t), state)
				}
				if lost {
					check("after the lost answer", call.change)
				} else {
					check("after the failure", outcome{})
					call.afterLost = call.again
				}
				if got := g.call(t, call.method, call.target, call.body).Code; got != call.afterLost {
					t.Errorf("%s: sent again, got %d, want %d", call.name, got, call.afterLost)
				}
				check("sent again", call.change)
			}
		})
	}
}

// TestResetFails: the counts are not reset without the entry.
func TestResetFails(t *testing.T) {
	t.Parallel()
	s := new(steps)
	g := newGateOver(t, s)
	g.account(t, "acc_1", "starter")
	g.take(t, "convert", 3)
	s.before = func(context.Context, []string) error { return store.ErrUnavailable }
	g.refused(t, http.StatusServiceUnavailable, "unavailable", "DELETE", usagePath, "")
	if used := g.used(t)["convert"]; used != 3 {
		t.Errorf("used %v, want 3", used)
	}
}

// TestLoginWithoutEntry: a login adds no entry.
func TestLoginWithoutEntry(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	entries := g.entries(t)
	g.must(t, http.StatusCreated, "POST", keysPath, `{"kind":"login"}`)
	if got := g.entries(t); got != entries || len(g.names(t, "?kind=login")) != 1 {
		t.Errorf("got %d entries and login tokens %v, want %d entries and 1 token", got, g.names(t, "?kind=login"), entries)
	}
}

// TestFirstKeyRefused: a first key that is refused leaves no account.
func TestFirstKeyRefused(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.refused(t, http.StatusForbidden, "plan_required", "POST", keysPath, `{"name":"ci"}`)
	g.giveFreeAccess(t)
	g.refused(t, http.StatusForbidden, "not_entitled", "POST", keysPath, `{"name":"ci","abilities":["convert"]}`)
	g.refused(t, http.StatusNotFound, "not_found", "GET", "/tollgate/accounts/acc_1", "")
	if n := g.entries(t); n != 0 {
		t.Errorf("got %d entries, want none", n)
	}
}

// state returns all documents.
func (g *gate) state(t *testing.T) string {
	t.Helper()
	accounts, err := g.Opened().List(t.Context(), "", 100, true)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(accounts)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		for _, k := range a.Keys {
			text = fmt.Appendf(text, " %+v", k)
		}
	}
	return string(text)
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
		{"DELETE", "/tollgate/accounts/acc_1/logins", "", http.StatusNoContent}, // no login token is live
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

// TestAuditRace: another writer is faster than a change that has seen the
// document. The entry has the state that the change found then.
func TestAuditRace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, target, body string // KEY is the id of the key
		other                string // the body of the other request
		before               string // of the last entry
		entries, events      int
	}{
		"account":       {"PUT", "", `{"plan":"business"}`, `{"disabled":true}`, `"disabled":true`, 2, 2},
		"the same":      {"PUT", "", `{"plan":"business"}`, `{"plan":"business"}`, `"plan":"starter"`, 1, 1},
		"key":           {"PATCH", "/keys/KEY", `{"ttl":"1d"}`, `{"name":"other"}`, `"name":"other"`, 2, 0},
		"the same key":  {"PATCH", "/keys/KEY", `{"name":"other"}`, `{"name":"other"}`, `"name":"ci"`, 1, 0},
		"limit":         {"PUT", "/limits/all/day", `{"limit":1}`, `{"limit":2}`, `"limit":2`, 2, 0},
		"revoked twice": {"DELETE", "/keys/KEY", "", "", `"revoked_at":null`, 1, 1},
		"rotated twice": {"POST", "/keys/KEY/rotate", "", "", `"revoked_at":null`, 1, 1},
		"deleted twice": {"DELETE", "", "", "", `"plan":"starter"`, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(steps)
			g := newGateOver(t, s)
			g.account(t, "acc_1", "starter")
			target := "/tollgate/accounts/acc_1" + strings.ReplaceAll(c.target, "KEY", g.issue(t, `{"name":"ci"}`).ID)
			g.Advance(time.Second)
			entries, events := g.entries(t), len(g.Published())
			s.during = func() { g.call(t, c.method, target, c.other) }
			g.call(t, c.method, target, c.body)
			list, err := g.Opened().LastEntries(t.Context(), "acc_1", time.Time{}, store.EntryID{}, 1)
			if err != nil || len(list) != 1 || !strings.Contains(string(list[0].Before), c.before) {
				t.Errorf("got the entry %s, %v; want in it %s", list[0].Before, err, c.before)
			}
			if got, want := (outcome{g.entries(t) - entries, len(g.Published()) - events}), (outcome{c.entries, c.events}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// entries returns how many entries the audit log has.
func (g *gate) entries(t *testing.T) int {
	t.Helper()
	list, err := g.Opened().ListEntries(t.Context(), "", controltest.Start.AddDate(0, 0, -1), store.EntryID{}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestImportStoreFails: the lines of the batch have 503, and so have those
// after them, which are not applied.
func TestImportStoreFails(t *testing.T) {
	t.Parallel()
	g := newGateOver(t, &steps{before: func(context.Context, []string) error { return errors.New("disk is full") }})
	r := httptest.NewRequest(http.MethodPost, "/tollgate/accounts", strings.NewReader(`{"account":"acc_1"}`+"\n"+`{"account":"acc_1"}`+"\nx\n"))
	r.Header.Set("Authorization", "Bearer "+controltest.Secret)
	r.Header.Set("Content-Type", api.LinesType)
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	if w.Code != http.StatusOK || len(lines) != 3 || strings.Count(w.Body.String(), `"status":503`) != 2 || !strings.Contains(lines[2], `"status":400`) {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
	if g.state(t) != "null" || len(g.Published()) != 0 || g.entries(t) != 0 {
		t.Errorf("got %s, events %v and %d entries, want none", g.state(t), g.Published(), g.entries(t))
	}
}
