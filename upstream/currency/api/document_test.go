package api_test

import (
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	control "github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

var update = flag.Bool("update", false, "write the golden files anew")

// exampleRates are the few rates behind the examples of the document. Their days
// are in the embedded file of the bank, so that samples work without a network.
func exampleRates(t testing.TB) *rates.Dataset {
	t.Helper()
	var b rates.Builder
	for _, line := range []struct {
		day    string
		source rates.Source
		values string
	}{
		{"2026-03-25", rates.SourceECB, "GBP 0.86558 JPY 184.27 USD 1.1592"},
		{"2026-03-26", rates.SourceECB, "GBP 0.86515 JPY 184.19 USD 1.1539"},
		{"2026-03-27", rates.SourceECB, "GBP 0.8672 JPY 184.16 USD 1.1517"},
		{"2026-03-27", rates.SourceECB | rates.SourceParity, "KYD 0.95975"},
		{"2026-03-27", rates.SourceIndicative, "KWD 0.35712345678 XAU 0.000312345678"},
	} {
		day, err := civil.Parse(line.day)
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(line.values)
		for pair := range slices.Chunk(fields, 2) {
			value, err := rates.ParseValue(pair[1])
			if err != nil {
				t.Fatal(err)
			}
			b.Set(day, currency.Code(pair[0]), value, line.source)
		}
	}
	return b.Build()
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs; run go test -update and look at the difference\ngot  %s\nwant %s", name, got, want)
	}
}

// TestExamples compares the examples of the document with the served answers.
func TestExamples(t *testing.T) {
	t.Parallel()
	handler, err := api.New(sourceOf(exampleRates(t)), site, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	batch, err := os.ReadFile("examples/batch_request.json")
	if err != nil {
		t.Fatal(err)
	}
	const week = "/api/history/EUR/USD?start_date=2026-03-23&end_date=2026-03-29&fill=previous"
	for name, r := range map[string]*http.Request{
		"currencies.json":   request(http.MethodGet, "/api/currencies"),
		"currencies.csv":    request(http.MethodGet, "/api/currencies", "Accept", "text/csv"),
		"currencies.ndjson": request(http.MethodGet, "/api/currencies", "Accept", "application/x-ndjson"),
		"convert.json":      request(http.MethodGet, "/api/convert/EUR/100/USD?date=2026-03-27"),
		"rates.json":        request(http.MethodGet, "/api/rates/EUR?date=2026-03-27&symbols=USD,GBP"),
		"rates.csv":         request(http.MethodGet, "/api/rates/EUR?date=2026-03-27&symbols=USD,GBP", "Accept", "text/csv"),
		"rates.ndjson":      request(http.MethodGet, "/api/rates/EUR?date=2026-03-27&symbols=USD,GBP", "Accept", "application/x-ndjson"),
		"history.json":      request(http.MethodGet, week+"&summary=change"),
		"history.csv":       request(http.MethodGet, week, "Accept", "text/csv"),
		"history.ndjson":    request(http.MethodGet, week, "Accept", "application/x-ndjson"),
		"batch.json":        httptest.NewRequest(http.MethodPost, "/api/convert/batch", strings.NewReader(string(batch))),
	} {
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		text := jsontext.Value(w.Body.Bytes())
		if filepath.Ext(name) == ".json" {
			if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
				t.Fatal(err)
			}
			text = append(text, '\n')
		}
		golden(t, filepath.Join("examples", name), text)
	}
}

// TestDocument holds the document to a golden file, so that no change of
// the API goes unseen, and to what a reader needs of every endpoint. That
// it is valid, and its examples too, is checked wherever it is loaded.
func TestDocument(t *testing.T) {
	t.Parallel()
	s := serve(t)
	a := s.get(t, "/openapi.json")
	if got, want := a.header.Get("Content-Type"), "application/json"; a.status != http.StatusOK || got != want {
		t.Fatalf("got %d %s, want 200 %s", a.status, got, want)
	}
	if got := a.header.Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("Access-Control-Allow-Origin = %q: pages of other sites cannot read the document", got)
	}
	golden(t, "testdata/openapi.json", append(a.body, '\n'))
	document := s.document(t)
	if err := document.Validate(t.Context()); err != nil {
		t.Errorf("the document is not valid: %v", err)
	}
	if got, want := document.OpenAPI, "3.1.0"; got != want {
		t.Errorf("openapi = %s, want %s", got, want)
	}
	for name := range document.Components.Schemas {
		if !strings.Contains(string(a.body), `"#/components/schemas/`+name+`"`) {
			t.Errorf("nothing in the document is a %s", name)
		}
	}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			name := method + " " + path
			if operation.Summary == "" || operation.Description == "" || operation.OperationID == "" {
				t.Errorf("%s lacks a summary, a description or an id", name)
			}
			for _, parameter := range operation.Parameters {
				schema := parameter.Value.Schema.Value
				if parameter.Value.Description == "" || (len(schema.Examples) == 0 && schema.Default == nil) {
					t.Errorf("%s: %s lacks a description or an example", name, parameter.Value.Name)
				}
			}
			if operation.Responses.Status(http.StatusOK).Value.Content.Get("application/json").Example == nil {
				t.Errorf("%s has no example", name)
			}
			refused := []int{400, 401, 403, 405, 429, 503}
			if !slices.Contains(external, path) {
				refused = append(refused, 406, 500)
			}
			for _, status := range refused {
				response := operation.Responses.Status(status)
				if response == nil {
					t.Errorf("%s does not document %d", name, status)
					continue
				}
				if got, want := response.Value.Content.Get("application/json").Schema.Ref, "#/components/schemas/ApiError"; got != want {
					t.Errorf("%s: %d is a %s, want %s", name, status, got, want)
				}
			}
		}
	}
}

// FuzzTarget: whatever is asked for, the answer is one that the document
// knows.
func FuzzTarget(f *testing.F) {
	for _, target := range targets {
		f.Add(target)
	}
	f.Add("/api/convert/us%64/1%2F2/%00?date=%zz;&&date")
	f.Add("/api/history/EUR/USD?start_date=2026-09-01&group=month&fill=previous&end_date=2026-03-31")
	f.Add("/api/rates/EUR?symbols=USD,,GBP")
	f.Add("/api/rates/EUR?source=ECB,parity")
	f.Add("/api/history/EUR/USD,GBP,VND?summary=change&source=indicative")
	s := serve(f)
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/api/") {
			t.Skip("no request target below /api/")
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = u
		a := s.send(r)
		switch a.status {
		case http.StatusOK:
			s.conforms(t, r, a)
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
			a.refusal(t)
		default:
			t.Errorf("%q: %d %s", target, a.status, a.body)
		}
	})
}

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
	var document control.UsageDocument
	if err := json.Unmarshal(example, &document, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(document, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil || string(again)+"\n" != string(example) {
		t.Errorf("the example is another document (%v):\n%s", err, again)
	}
}
