package session_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/session"
)

var start = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// newManager returns a manager over a real database that knows ada, and its
// database.
func newManager(t *testing.T) (*session.Manager, *database.Store) {
	t.Helper()
	store := accounttest.Open(t)
	ada := account.Account{ID: "acc_ada", Email: "ada@example.com", CreatedAt: start, UpdatedAt: start}
	if err := store.Add(t.Context(), ada, "hash"); err != nil {
		t.Fatal(err)
	}
	return session.NewManager(store, func() time.Time { return start }, false), store
}

// load returns a loaded request that carries a cookie.
func load(t *testing.T, m *session.Manager, cookie, agent string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Cookie", cookie)
	r.Header.Set("User-Agent", agent)
	loaded, err := m.Load(r)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// open begins a session and returns its cookie.
func open(t *testing.T, m *session.Manager, agent string) string {
	t.Helper()
	w := httptest.NewRecorder()
	who := account.Identity{Account: account.Account{ID: "acc_ada"}, Version: 1}
	if err := m.Open(w, load(t, m, "", agent), who, false); err != nil {
		t.Fatal(err)
	}
	cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	return cookie
}

// A browser that calls itself something strange is kept out of no
// database.
func TestStrangeAgents(t *testing.T) {
	t.Parallel()
	m, store := newManager(t)
	for _, agent := range []string{"", strings.Repeat("é", 1000), "\xff\xfe", strings.Repeat("x", 255) + "é"} {
		open(t, m, agent)
	}
	all, err := store.Sessions(t.Context(), "acc_ada")
	if err != nil || len(all) != 4 {
		t.Fatalf("got %d sessions, %v", len(all), err)
	}
	for _, s := range all {
		if len(s.Agent) > 256 || !utf8.ValidString(s.Agent) {
			t.Errorf("kept %q", s.Agent)
		}
	}
}

// What is no token of ours opens nothing and breaks nothing.
func TestStrangeCookies(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t)
	open(t, m, "")
	for _, cookie := range []string{"", "tollgate=", "tollgate=' OR 1=1 --", "tollgate=" + strings.Repeat("x", 8000), "tollgate=\xff", "session=abc"} {
		if _, found := m.Current(load(t, m, cookie, "").Context()); found {
			t.Errorf("%.40q opens a session", cookie)
		}
	}
}
