package api_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

// external are the paths of the document that server and gate answer.
var external = []string{"/api/login", "/api/usage"}

// TestLoginIsAsDescribed compares real answers of the login with the document.
func TestLoginIsAsDescribed(t *testing.T) {
	t.Parallel()
	described := serve(t)
	logger := slog.New(slog.DiscardHandler)
	accountStore := accounttest.Open(t)
	gate := gatetest.Start(t)
	accounts := account.NewService(accountStore, gate.Client, accounttest.Hasher(), time.Now, logger)
	const password = "correct horse battery staple"
	for address, plan := range map[string]string{"ada@example.com": "starter", "bob@example.com": "free"} {
		email, err := account.ParseEmail(address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := accounts.Add(t.Context(), email, password, plan); err != nil {
			t.Fatal(err)
		}
	}
	handler := server.New(server.Config{
		Check: server.CheckAssertion(gatetest.Verifier(t, "rates.example")), API: described.handler, Login: portal.NewLogin(accounts, logger), Database: accountStore,
		Pages: http.NotFoundHandler(), Logger: logger,
	})
	login := func(media, body string) answer {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/api/login", strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		r.Header.Set(assertion.Header, gatetest.Assert(t, "rates.example", assertion.Login))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		a := answer{w.Code, w.Header(), w.Body.Bytes()}
		described.conforms(t, r, a)
		return a
	}
	credentials := func(email, password string) string {
		return `{"email":"` + email + `","password":"` + password + `","device":"x"}`
	}
	const media = "application/json"
	if a := login(media, credentials("ada@example.com", password)); a.status != http.StatusOK {
		t.Errorf("got %d %s, want 200", a.status, a.body)
	}
	login(media, credentials("ada@example.com", "wrong")).refused(t, 401, "invalid_credentials")
	login(media, credentials("bob@example.com", password)).refused(t, 403, "plan_required")
	login(media, `{"email":1}`).refused(t, 400, "invalid_request")
	login(media, strings.Repeat(" ", 5000)).refused(t, 413, "body_too_large")
	login("text/plain", "x").refused(t, 415, "unsupported_media_type")
	gate.Stop()
	login(media, credentials("ada@example.com", password)).refused(t, 503, "unavailable")
}

// TestUsageIsAsDescribed compares the gate's usage of a real store, and the
// example, with the document.
func TestUsageIsAsDescribed(t *testing.T) {
	t.Parallel()
	s, gate := serve(t), controltest.New(t)
	opened := gate.Opened()
	if _, err := storetest.PutAccount(t.Context(), opened.Book, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: gate.Now()}); err != nil {
		t.Fatal(err)
	}
	opened.Record(store.Record{
		Account: "acc_1", Key: "key_1", KeyName: "ci", At: gate.Now(), Endpoint: "convert", Method: http.MethodGet,
		Path: "/api/convert/EUR/10/USD", Status: http.StatusOK, Duration: 1800 * time.Microsecond,
	})
	key := &store.Key{ID: "key_1", Name: "ci", Limits: []store.Limit{
		{Endpoint: "convert", Period: store.Month, Max: 10, OfKey: true}, {Endpoint: store.All, Period: store.Second, Max: 2, OfKey: true},
	}}
	for _, plan := range []string{"free", "starter", "business"} {
		for _, days := range []int{0, 2} {
			document := gate.Usage(t, "acc_1", plan, key, days)
			if len(document.RecentCalls) != 1 {
				t.Fatalf("got %d calls", len(document.RecentCalls))
			}
			text, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			s.conforms(t, request(http.MethodGet, "/api/usage"), answer{200, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, text})
		}
	}
	example, err := os.ReadFile("examples/usage.json")
	if err != nil {
		t.Fatal(err)
	}
	var document api.UsageDocument
	if err := json.Unmarshal(example, &document, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(document, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil || string(again)+"\n" != string(example) {
		t.Errorf("the example is another document (%v):\n%s", err, again)
	}
}
