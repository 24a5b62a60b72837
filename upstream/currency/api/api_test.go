package api_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/go-json-experiment/json"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// TestMain teaches the validator a media type.
func TestMain(m *testing.M) {
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.PlainBodyDecoder)
	os.Exit(m.Run())
}

// now is the clock of the tests: the Tuesday after the fixture's newest
// day.
var now = time.Date(2026, 9, 29, 12, 30, 0, 0, time.UTC)

// site is where the API is reached.
var site = &url.URL{Scheme: "https", Host: "rates.example"}

// fixed holds rates that tests may swap, as a provider does.
type fixed struct{ data atomic.Pointer[rates.Dataset] }

func (f *fixed) Current() *rates.Dataset { return f.data.Load() }

func (f *fixed) NextExpected(now time.Time) time.Time { return now.Add(90*time.Minute + time.Second/2) }

func sourceOf(data *rates.Dataset) *fixed {
	var f fixed
	f.data.Store(data)
	return &f
}

// fixture is a fortnight of a few currencies around a weekend, the week
// before from both sources, and a lev that ended. Its values are in the
// manner of both sources, but not taken from them.
func fixture(t testing.TB) *rates.Dataset {
	t.Helper()
	var b rates.Builder
	set := func(day, code, value string, source rates.Source) {
		t.Helper()
		date, err := civil.Parse(day)
		if err != nil {
			t.Fatal(err)
		}
		v, err := rates.ParseValue(value)
		if err != nil {
			t.Fatal(err)
		}
		b.Set(date, currency.Code(code), v, source)
	}
	set("2025-12-30", "BGN", "1.95583", rates.SourceECB)
	set("2025-12-30", "USD", "1.1769", rates.SourceECB)
	set("2026-01-02", "USD", "1.1721", rates.SourceECB)
	for _, line := range []string{
		"2026-08-31 1.1688 0.86560 172.12",
		"2026-09-18 1.1778 0.87235 174.21",
		"2026-09-21 1.1789 0.87310 174.35",
		"2026-09-22 1.1808 0.87375 174.58",
		"2026-09-23 1.1779 0.87402 174.11",
		"2026-09-24 1.1732 0.87288 174.02",
		"2026-09-25 1.1701 0.87245 174.60",
	} {
		f := strings.Fields(line)
		set(f[0], "USD", f[1], rates.SourceECB)
		set(f[0], "GBP", f[2], rates.SourceECB)
		set(f[0], "JPY", f[3], rates.SourceECB)
	}
	for _, day := range []string{"2026-09-22", "2026-09-25"} {
		set(day, "AED", "4.29712345", rates.SourceIndicative)
		set(day, "KWD", "0.35712345678", rates.SourceIndicative)
		set(day, "VND", "30912.4412", rates.SourceIndicative)
		set(day, "XAU", "0.000312345678", rates.SourceIndicative)
	}
	return b.Build()
}

// serving is the API over some rates, with its document.
type serving struct {
	handler http.Handler
	source  *fixed
	routes  routers.Router
}

func serve(t testing.TB) *serving { return serveWith(t, fixture(t)) }

func serveWith(t testing.TB, data *rates.Dataset) *serving {
	t.Helper()
	source := sourceOf(data)
	handler, err := api.New(source, site, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	s := &serving{handler: handler, source: source}
	if s.routes, err = legacy.NewRouter(s.document(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

// document loads what is served at /openapi.json.
func (s *serving) document(t testing.TB) *openapi3.T {
	t.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	document, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err != nil {
		t.Fatalf("loading the document: %v", err)
	}
	return document
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request and checks the answer against the document.
func (s *serving) do(t testing.TB, r *http.Request) answer {
	t.Helper()
	a := s.send(r)
	s.conforms(t, r, a)
	return a
}

// send sends a request and returns what came back as it is.
func (s *serving) send(r *http.Request) answer {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.Bytes()}
}

// conforms fails the test if the document does not allow the answer.
func (s *serving) conforms(t testing.TB, r *http.Request, a answer) {
	t.Helper()
	route, parameters, err := s.routes.FindRoute(r)
	if err != nil || a.status == http.StatusNotModified || r.Method == http.MethodHead {
		return // no path of the document, or an answer without a body
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: parameters, Route: route},
		Status:                 a.status,
		Header:                 a.header,
		Body:                   io.NopCloser(bytes.NewReader(a.body)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		t.Errorf("%s %s: %d %s is not in the document: %v", r.Method, r.URL, a.status, a.body, err)
	}
}

func (s *serving) get(t testing.TB, target string) answer {
	t.Helper()
	return s.do(t, httptest.NewRequest(http.MethodGet, target, nil))
}

func (s *serving) batch(t testing.TB, body string) answer {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/api/convert/batch", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return s.do(t, r)
}

// problem is the shape of a refusal.
type problem struct {
	Message   string
	Code      string
	Successor *string
}

// refusal decodes a refusal and checks what all have in common.
func (a answer) refusal(t testing.TB) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(a.body, &p, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	if got, want := a.header.Get("Content-Type"), "application/json; charset=utf-8"; got != want {
		t.Errorf("Content-Type = %q, want %q", got, want)
	}
	if got, want := a.header.Get("Cache-Control"), "no-store"; got != want {
		t.Errorf("Cache-Control = %q, want %q", got, want)
	}
	if !strings.HasSuffix(p.Message, ".") {
		t.Errorf("message %q is no sentence", p.Message)
	}
	return p
}

// refused checks status and code.
func (a answer) refused(t testing.TB, status int, code string) problem {
	t.Helper()
	if a.status != status {
		t.Fatalf("got %d %s, want %d %s", a.status, a.body, status, code)
	}
	p := a.refusal(t)
	if p.Code != code {
		t.Errorf("got %s, want code %s", a.body, code)
	}
	return p
}

// decode decodes a 200 into v.
func (a answer) decode(t testing.TB, v any) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("got %d %s, want 200", a.status, a.body)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}
