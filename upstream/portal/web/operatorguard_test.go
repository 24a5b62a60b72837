package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// Threat: a person passes the guard while the database does not say who is an
// operator. When the page behind it asks, the database answers again.
func TestOperatorsOnlyWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	gate, store := gatetest.Start(t), accounttest.Open(t)
	logger := slog.New(slog.DiscardHandler)
	accounts := account.NewService(store, gate.Client, accounttest.Hasher(), time.Now, logger)
	s, err := newSite(Config{
		Accounts: accounts, Sessions: store, Gate: gate.Client, Now: time.Now, Logger: logger,
		Site: Site{Address: &url.URL{Scheme: "http", Host: "localhost:8080"}, Timezone: "UTC"},
	})
	if err != nil {
		t.Fatal(err)
	}
	olga, err := accounts.Add(t.Context(), "olga@example.com", "correct horse battery staple", "starter")
	if err = errors.Join(err, accounts.SetOperator(t.Context(), olga.ID, true)); err != nil {
		t.Fatal(err)
	}
	passed := 0
	guarded := s.operatorsOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
	r := loaded(s, httptest.NewRequest(http.MethodPost, operatorPath+"/try", nil))
	if err := s.sessions.Open(httptest.NewRecorder(), r, account.Identity{Account: olga, Version: 1}, false); err != nil {
		t.Fatal(err)
	}
	guarded.ServeHTTP(httptest.NewRecorder(), r)
	if passed != 1 {
		t.Fatal("the operator does not pass")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if guarded.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable || passed != 1 {
		t.Errorf("got %d, and %d passed", w.Code, passed-1)
	}
}

// Threat: a visit of an operator's account by a link has the operator's rights.
func TestPortalIsNoOperator(t *testing.T) {
	t.Parallel()
	store := accounttest.Open(t)
	gate := gatetest.Start(t).Client
	accounts := account.NewService(store, gate, accounttest.Hasher(), time.Now, slog.New(slog.DiscardHandler))
	a, err := accounts.Add(t.Context(), "ada@example.com", "correct horse battery staple", "starter")
	if err != nil {
		t.Fatal(err)
	}
	if err := accounts.SetOperator(t.Context(), a.ID, true); err != nil {
		t.Fatal(err)
	}
	s := &site{keyring: new(gateKeys), Config: Config{Accounts: accounts, Sessions: store, Gate: gate, Now: time.Now, Site: Site{Hosts: func(string) bool { return true }}}}
	for portal, want := range map[bool]account.Identity{
		true:  {Account: account.Account{ID: a.ID, Email: account.Email(a.ID)}, Version: 1},
		false: {Account: a, Version: 1, Operator: true},
	} {
		if got, err := s.identify(t.Context(), a.ID, portal); err != nil || got != want {
			t.Errorf("by a link is %v: got %+v, %v; want %+v", portal, got, err, want)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.identify(t.Context(), a.ID, true); !errors.Is(err, account.ErrDatabase) {
		t.Errorf("without the database: got %+v, %v", got, err)
	}
	made, err := gate.Portal(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, link, _ := strings.Cut(made.URL, "link=")
	claims, err := s.readLink(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.spendLink(nil, httptest.NewRequest("GET", "/portal", nil), claims); !errors.Is(err, account.ErrDatabase) {
		t.Errorf("a link without the database: got %v", err)
	}
}
