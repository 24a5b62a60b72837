package admin_test

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
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
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
			s := new(controltest.Steps)
			g := newGateOver(t, s)
			g.Account(t, "acc_1", "starter")
			key := g.Must(t, http.StatusCreated, "POST", keysPath, `{"name":"ci"}`)["id"].(string)
			login := g.Must(t, http.StatusCreated, "POST", keysPath, `{"kind":"login"}`)["id"].(string)
			g.Must(t, http.StatusCreated, "POST", keysPath, `{"kind":"login"}`)
			for _, call := range []struct {
				name, method, target, body string
				change                     outcome
				again, afterLost           int // the status of the second call, if the first was not made, and if it was
			}{
				{"account", "PUT", "/tollgate/accounts/acc_1", `{"plan":"business"}`, outcome{1, 1}, http.StatusOK, http.StatusOK},
				{"set limit", "PUT", "/tollgate/accounts/acc_1/limits/all/day", `{"limit":1}`, outcome{1, 0}, http.StatusOK, http.StatusOK},
				{"clear limit", "DELETE", "/tollgate/accounts/acc_1/limits/all/day", "", outcome{1, 0}, http.StatusNoContent, http.StatusNotFound},
				{"create", "POST", keysPath, `{"name":"cd"}`, outcome{1, 1}, http.StatusCreated, http.StatusConflict},
				{"set", "PATCH", keysPath + "/" + key, `{"name":"ce"}`, outcome{1, 0}, http.StatusOK, http.StatusOK},
				{"rotate", "POST", keysPath + "/" + key + "/rotate", `{"overlap":"1h"}`, outcome{1, 1}, http.StatusCreated, http.StatusConflict},
				{"revoke", "DELETE", keysPath + "/" + key, "", outcome{1, 1}, http.StatusNoContent, http.StatusNoContent},
				{"revoke a login", "DELETE", keysPath + "/" + login, "", outcome{1, 0}, http.StatusNoContent, http.StatusNoContent},
				{"end logins", "DELETE", "/tollgate/accounts/acc_1/logins", "", outcome{1, 0}, http.StatusNoContent, http.StatusNoContent},
				{"delete", "DELETE", "/tollgate/accounts/acc_1", "", outcome{1, 1}, http.StatusNoContent, http.StatusNotFound},
			} {
				g.Advance(time.Second)
				state, entries, events := g.state(t), g.Entries(t), len(g.Published())
				check := func(when string, want outcome) {
					t.Helper()
					g.Follow()
					if got := (outcome{g.Entries(t) - entries, len(g.Published()) - events}); got != want {
						t.Errorf("%s: %s, got %+v, want %+v", call.name, when, got, want)
					}
				}
				if lost {
					s.After = func(errs []error) { errs[0] = store.ErrUnavailable }
				} else {
					s.Before = func(context.Context, []string) error { return errors.New("disk is full") }
				}
				g.Refused(t, http.StatusServiceUnavailable, "unavailable", call.method, call.target, call.body)
				s.Before, s.After = nil, nil // the gate reads the engine meanwhile
				if made := g.state(t) != state; made != lost {
					t.Errorf("%s: got %s, before it was %s", call.name, g.state(t), state)
				}
				if lost {
					check("after the lost answer", call.change)
				} else {
					check("after the failure", outcome{})
					call.afterLost = call.again
				}
				if got := g.Call(t, call.method, call.target, call.body).Code; got != call.afterLost {
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
	s := new(controltest.Steps)
	g := newGateOver(t, s)
	g.Account(t, "acc_1", "starter")
	g.Take(t, "convert", 3)
	s.Before = func(context.Context, []string) error { return store.ErrUnavailable }
	g.Refused(t, http.StatusServiceUnavailable, "unavailable", "DELETE", "/tollgate/accounts/acc_1/usage", "")
	if used := g.Used(t)["convert"]; used != 3 {
		t.Errorf("used %v, want 3", used)
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
	g.Account(t, "acc_1", "starter")
	create := func(body string) string {
		return keysPath + "/" + g.Must(t, http.StatusCreated, "POST", keysPath, body)["id"].(string)
	}
	live, revoked, rotated, login := create(`{"name":"ci"}`), create(`{"name":"cd"}`), create(`{"name":"cf"}`), create(`{"kind":"login"}`)
	g.Advance(time.Second)
	g.Must(t, http.StatusCreated, "POST", rotated+"/rotate", "")
	for _, ended := range []string{revoked, login} {
		g.Call(t, "DELETE", ended, "")
	}
	entries, events := g.Entries(t), len(g.Published())
	for _, call := range []struct {
		method, target, body string
		status               int
	}{
		{"PUT", "/tollgate/accounts/acc_1", `{"plan":"starter","disabled":false}`, http.StatusOK},
		{"PUT", "/tollgate/accounts/acc_1", `{}`, http.StatusOK},
		{"PATCH", live, `{"name":"ci"}`, http.StatusOK},
		{"DELETE", revoked, "", http.StatusNoContent},
		{"DELETE", rotated, "", http.StatusNoContent},
		{"DELETE", login, "", http.StatusNoContent},
		{"POST", keysPath, `{"name":"ci"}`, http.StatusConflict},
		{"POST", revoked + "/rotate", `{}`, http.StatusNotFound},
		{"PATCH", revoked, `{"name":"ce"}`, http.StatusNotFound},
		{"DELETE", "/tollgate/accounts/acc_1/limits/all/day", "", http.StatusNotFound},
		{"DELETE", "/tollgate/accounts/acc_2", "", http.StatusNotFound},
		{"DELETE", "/tollgate/accounts/acc_1/logins", "", http.StatusNoContent}, // no login token is live
		{"DELETE", "/tollgate/accounts/acc_2/logins", "", http.StatusNotFound},
	} {
		if got := g.Call(t, call.method, call.target, call.body).Code; got != call.status {
			t.Errorf("%s %s %s: got %d, want %d", call.method, call.target, call.body, got, call.status)
		}
		if got, told := g.Entries(t), len(g.Published()); got != entries || told != events {
			t.Errorf("%s %s %s: got %d entries and %d events, want %d and %d", call.method, call.target, call.body, got, told, entries, events)
		}
	}
}

// request is a method, a path below the account, where KEY is the id of a key,
// and a body.
type request [3]string

// TestMeanwhile: another writer is faster than a change that has seen the
// document. Neither undoes the other, and the last entry has the state that its
// change found.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	const ok, created, gone, missing, conflict, forbidden = http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusNotFound, http.StatusConflict, http.StatusForbidden
	rotate, remove, revoke := request{"POST", "/keys/KEY/rotate", ""}, request{"DELETE", "", ""}, request{"DELETE", "/keys/KEY", ""}
	set := func(body string) request { return request{"PUT", "", body} }
	patch := func(body string) request { return request{"PATCH", "/keys/KEY", body} }
	override := func(limit, body string) request { return request{"PUT", "/limits/" + limit, body} }
	for name, c := range map[string]struct {
		slower, faster  request
		status          int    // of the slower one
		before          string // of the last entry
		entries, events int
		remains         string // of the account and its overrides
	}{
		"account":                   {set(`{"plan":"business"}`), set(`{"disabled":true}`), ok, `"disabled":true`, 2, 2, `"disabled":true`},
		"the same":                  {set(`{"plan":"business"}`), set(`{"plan":"business"}`), ok, `"plan":"starter"`, 1, 1, ""},
		"key":                       {patch(`{"ttl":"1d"}`), patch(`{"name":"other"}`), ok, `"name":"other"`, 2, 0, ""},
		"the same key":              {patch(`{"name":"other"}`), patch(`{"name":"other"}`), ok, `"name":"ci"`, 1, 0, ""},
		"the name of another key":   {patch(`{"name":"other"}`), request{"POST", "/keys", `{"name":"other"}`}, conflict, "", 1, 1, ""},
		"limit":                     {override("all/day", `{"limit":1}`), override("all/day", `{"limit":2}`), ok, `"limit":2`, 2, 0, `"limit":1`},
		"two limits":                {override("all/day", `{"limit":1}`), override("convert/month", `{"limit":2}`), ok, "", 2, 0, `"endpoint":"convert"`},
		"a limit and a plan":        {override("all/day", `{"limit":1}`), set(`{"plan":"business"}`), ok, "", 2, 1, `"plan":"business"`},
		"a change and a revocation": {patch(`{"ttl":"1d"}`), revoke, missing, `"revoked_at":null`, 1, 1, ""},
		"a rotation and a plan":     {rotate, set(`{"plan":"free"}`), forbidden, `"plan":"starter"`, 1, 1, `"plan":"free"`},
		"a rotation and a change":   {rotate, patch(`{"name":"other"}`), created, `"name":"other"`, 2, 1, ""},
		"a rotation and a deletion": {rotate, remove, missing, `"plan":"starter"`, 1, 1, "There is no such account."},
		"revoked twice":             {revoke, revoke, gone, `"revoked_at":null`, 1, 1, ""},
		"rotated twice":             {rotate, rotate, missing, `"revoked_at":null`, 1, 1, ""},
		"deleted twice":             {remove, remove, missing, `"plan":"starter"`, 1, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(controltest.Steps)
			g := newGateOver(t, s)
			g.Account(t, "acc_1", "starter")
			id := g.Issue(t, `{"name":"ci"}`).ID
			send := func(r request) int {
				return g.Call(t, r[0], "/tollgate/accounts/acc_1"+strings.ReplaceAll(r[1], "KEY", id), r[2]).Code
			}
			g.Advance(time.Second)
			entries, events := g.Entries(t), len(g.Published())
			s.During = func() { send(c.faster) }
			if got := send(c.slower); got != c.status {
				t.Errorf("got %d, want %d", got, c.status)
			}
			list, err := g.Opened().ListEntries(t.Context(), book.EntryFilter{Accounts: []string{"acc_1"}, NewestFirst: true}, store.EntryID{}, 1)
			if err != nil || len(list) != 1 || !strings.Contains(string(list[0].Before), c.before) {
				t.Errorf("got the entry %s, %v; want in it %s", list[0].Before, err, c.before)
			}
			if got, want := (outcome{g.Entries(t) - entries, len(g.Published()) - events}), (outcome{c.entries, c.events}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			got := g.Call(t, "GET", "/tollgate/accounts/acc_1", "").Body.String() + g.Call(t, "GET", limitsPath, "").Body.String()
			if !strings.Contains(got, c.remains) {
				t.Errorf("got %s, want in it %s", got, c.remains)
			}
		})
	}
}

// TestImportStoreFails: the lines of the batch have 503, and so have those
// after them, which are not applied.
func TestImportStoreFails(t *testing.T) {
	t.Parallel()
	failed := false
	g := newGateOver(t, &controltest.Steps{Before: func(context.Context, []string) error {
		if failed {
			return nil // the second line is not applied all the same
		}
		failed = true
		return errors.New("disk is full")
	}})
	r := httptest.NewRequest(http.MethodPost, "/tollgate/accounts", strings.NewReader(`{"account":"acc_1"}`+"\n"+`{"account":"acc_1"}`+"\nx\n"))
	r.Header.Set("Authorization", "Bearer "+controltest.Secret)
	r.Header.Set("Content-Type", api.LinesType)
	w := httptest.NewRecorder()
	g.Handled.ServeHTTP(w, r)
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	if w.Code != http.StatusOK || len(lines) != 3 || strings.Count(w.Body.String(), `"status":503`) != 2 || !strings.Contains(lines[2], `"status":400`) {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
	if g.state(t) != "null" || len(g.Published()) != 0 || g.Entries(t) != 0 {
		t.Errorf("got %s, events %v and %d entries, want none", g.state(t), g.Published(), g.Entries(t))
	}
}
