package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
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
