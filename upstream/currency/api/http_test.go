package api_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// targets is one good request for each GET endpoint.
var targets = []string{
	"/api/currencies", "/api/convert/EUR/100/USD", "/api/rates/EUR", "/api/history/EUR/USD",
}

func request(method, target string, fields ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

// newer returns the fixture with one more value.
func newer(t *testing.T, day, code, text string) *rates.Dataset {
	t.Helper()
	date, err := civil.Parse(day)
	if err != nil {
		t.Fatal(err)
	}
	value, err := rates.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	var b rates.Builder
	b.Set(date, currency.Code(code), value, rates.SourceECB)
	return rates.Merge(fixture(t), b.Build())
}

func TestCaching(t *testing.T) {
	t.Parallel()
	for _, target := range targets {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			first := s.get(t, target)
			etag := first.header.Get("ETag")
			if !strings.HasPrefix(etag, `"`) || len(etag) != 24 {
				t.Errorf("ETag = %s, want a strong one", etag)
			}
			if got, want := first.header.Get("Cache-Control"), "private, max-age=5400"; got != want {
				t.Errorf("Cache-Control = %q, want %q", got, want)
			}
			if got, want := first.header.Get("Vary"), "Accept"; got != want {
				t.Errorf("Vary = %q, want %q", got, want)
			}
			for _, match := range []string{etag, "W/" + etag, `"other", ` + etag, "*"} {
				again := s.do(t, request(http.MethodGet, target, "If-None-Match", match))
				if again.status != http.StatusNotModified || len(again.body) > 0 {
					t.Errorf("If-None-Match: %s: got %d with %d bytes, want an empty 304", match, again.status, len(again.body))
				}
				for _, name := range []string{"ETag", "Cache-Control", "Vary"} {
					if got, want := again.header.Get(name), first.header.Get(name); got != want {
						t.Errorf("304 has %s %q, want %q", name, got, want)
					}
				}
				if again.header.Get("Content-Type") != "" || again.header.Get("Content-Length") != "" {
					t.Errorf("304 describes a body: %v", again.header)
				}
			}
			for _, match := range []string{`"other"`, strings.Trim(etag, `"`), ""} {
				if again := s.do(t, request(http.MethodGet, target, "If-None-Match", match)); again.status != http.StatusOK {
					t.Errorf("If-None-Match: %s: got %d, want 200", match, again.status)
				}
			}
			// Another dataset with the same values is no change.
			s.source.data.Store(fixture(t))
			if got := s.get(t, target).header.Get("ETag"); got != etag {
				t.Errorf("ETag changed from %s to %s without a change", etag, got)
			}
			s.source.data.Store(newer(t, "2026-09-28", "USD", "1.1713"))
			changed := s.do(t, request(http.MethodGet, target, "If-None-Match", etag))
			if changed.status != http.StatusOK || changed.header.Get("ETag") == etag {
				t.Errorf("got %d with ETag %s after new rates, want 200 with another than %s",
					changed.status, changed.header.Get("ETag"), etag)
			}
		})
	}
}

// TestPastStaysCached: new rates do not change the answer for a past day, so
// its ETag stays.
func TestPastStaysCached(t *testing.T) {
	t.Parallel()
	s := serve(t)
	target := "/api/convert/EUR/100/USD?date=2026-09-23"
	etag := s.get(t, target).header.Get("ETag")
	s.source.data.Store(newer(t, "2026-09-28", "USD", "1.1713"))
	if a := s.do(t, request(http.MethodGet, target, "If-None-Match", etag)); a.status != http.StatusNotModified {
		t.Errorf("got %d, want 304", a.status)
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, target := range append([]string{"/api/convert/EUR/x/USD"}, targets...) {
		get, head := s.get(t, target), s.do(t, request(http.MethodHead, target))
		if head.status != get.status {
			t.Errorf("HEAD %s: %d, want %d", target, head.status, get.status)
		}
		if get.status == http.StatusOK && len(head.body) > 0 {
			t.Errorf("HEAD %s: a body of %d bytes", target, len(head.body))
		}
		if got, want := head.header.Get("Content-Length"), strconv.Itoa(len(get.body)); got != want {
			t.Errorf("HEAD %s: Content-Length %q, want %q", target, got, want)
		}
		for name := range get.header {
			if got, want := head.header.Get(name), get.header.Get(name); got != want {
				t.Errorf("HEAD %s: %s %q, want %q", target, name, got, want)
			}
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, target := range []string{
		"/api/", "/api/currencies/", "/API/currencies", "/api/rates/EUR/USD", "/api//currencies", "/api/x/../currencies", "/openapi.yaml", "/schemas/x",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = target
		s.send(r).refused(t, 404, "not_found")
	}
	for method, path := range map[string]string{"POST": "/api/currencies", "PUT": "/api/rates/EUR", "DELETE": "/api/convert/EUR/1/USD", "PATCH": "/api/history/EUR/USD", "OPTIONS": "/openapi.json"} {
		a := s.do(t, request(method, path))
		a.refused(t, 405, "method_not_allowed")
		if got, want := a.header.Get("Allow"), "GET, HEAD"; got != want {
			t.Errorf("%s %s: Allow = %q, want %q", method, path, got, want)
		}
	}
	for _, method := range []string{"GET", "HEAD", "PUT"} {
		a := s.do(t, request(method, "/api/convert/batch"))
		a.refused(t, 405, "method_not_allowed")
		if got, want := a.header.Get("Allow"), "POST"; got != want {
			t.Errorf("%s batch: Allow = %q, want %q", method, got, want)
		}
	}
}

func TestQueryParameters(t *testing.T) {
	t.Parallel()
	s := serve(t)
	known := map[string]string{
		"/api/currencies": "no query parameters", "/api/convert/EUR/1/USD": "date, source", "/api/rates/EUR": "date, symbols, source",
		"/api/history/EUR/USD": "start_date, end_date, group, fill, summary, source",
	}
	for path, names := range known {
		for _, query := range []string{"x=1", "Date=2026-09-25", "date[]=2026-09-25", "x", "=", "%64atex=1"} {
			p := s.get(t, path+"?"+query).refused(t, 400, "unknown_parameter")
			if !strings.Contains(p.Message, names) {
				t.Errorf("%s?%s: %q does not name %q", path, query, p.Message, names)
			}
		}
	}
	for query, code := range map[string]string{
		"date=2026-09-25&date=2026-09-25":   "invalid_request",
		"date=2026-09-25&%64ate=2026-09-24": "invalid_request",
		"date=2026-09-25;x=1":               "invalid_request",
		"date=%zz":                          "invalid_request",
		"date=2026-09-25&date":              "invalid_request",
		"date=":                             "invalid_date",
		"symbols=":                          "invalid_currency",
		"symbols=USD,,GBP":                  "invalid_currency",
		"symbols=USD%20GBP":                 "invalid_currency",
	} {
		s.get(t, "/api/rates/EUR?"+query).refused(t, 400, code)
	}
	for _, query := range []string{"group=", "group=year", "group=Day", "fill=", "fill=next", "fill=none&fill=none"} {
		s.get(t, "/api/history/EUR/USD?"+query).refused(t, 400, "invalid_request")
	}
	for _, query := range []string{"", "&", "symbols=USD%2CGBP", "symbols=usd,Usd", "symbols=usd,%20gbp", "symbols=+usd+,+gbp+"} {
		if a := s.get(t, "/api/rates/EUR?"+query); a.status != http.StatusOK {
			t.Errorf("?%s: got %d %s, want 200", query, a.status, a.body)
		}
	}
	s.do(t, request(http.MethodPost, "/api/convert/batch?date=2026-09-25", "Content-Type", "application/json")).
		refused(t, 400, "unknown_parameter")
}

func TestAccept(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for accept, want := range map[string]int{
		"":                     200,
		"*/*":                  200,
		"application/json":     200,
		"text/html, */*;q=0.1": 200,
		"text/html":            406,
		"application/xml":      406,
		"application/json;q=0": 406,
		"a;b,c":                406, // huma's own reading panics on this
	} {
		for _, target := range append([]string{"/api/rates/x"}, targets...) {
			if target == "/api/rates/x" && want == 200 {
				continue // refused for the currency
			}
			a := s.do(t, request(http.MethodGet, target, "Accept", accept))
			if a.status != want {
				t.Errorf("Accept: %q: got %d %s, want %d", accept, a.status, a.body, want)
			}
			if want == 406 {
				a.refused(t, 406, "not_acceptable")
			}
		}
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	document := s.document(t)
	routes := api.Routes()
	if got, want := len(routes), 5; got != want {
		t.Fatalf("got %d routes, want %d", got, want)
	}
	for _, route := range routes {
		if item := document.Paths.Value(route.Path); item == nil || item.GetOperation(route.Method) == nil {
			t.Errorf("%s %s is not in the document", route.Method, route.Path)
		}
	}
	if got, want := document.Paths.Len(), len(routes)+len(external); got != want {
		t.Errorf("the document has %d paths, want %d", got, want)
	}
	// The document describes these paths; the handler does not serve them.
	for _, path := range external {
		if document.Paths.Value(path) == nil {
			t.Errorf("%s is not in the document", path)
		}
		s.send(request(http.MethodGet, path)).refused(t, 404, "not_found")
	}
}

// flipping returns another dataset at each call, and counts the calls.
type flipping struct {
	data  [2]*rates.Dataset
	asked atomic.Int64
}

func (f *flipping) Current() *rates.Dataset { return f.data[f.asked.Add(1)%2] }

func (f *flipping) NextExpected(now time.Time) time.Time { return now.Add(-time.Hour) }

// TestOneDatasetPerRequest: a refresh during a request must not change a part
// of its answer.
func TestOneDatasetPerRequest(t *testing.T) {
	t.Parallel()
	source := &flipping{data: [2]*rates.Dataset{fixture(t), newer(t, "2026-09-28", "USD", "1.1713")}}
	handler, err := api.New(source, site, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	batch := `{"conversions":[` + strings.Repeat(`{"from":"EUR","to":"USD","amount":1},`, 99) + `{"from":"EUR","to":"USD","amount":1}]}`
	requests := []*http.Request{
		httptest.NewRequest(http.MethodPost, "/api/convert/batch", strings.NewReader(batch)),
	}
	for _, target := range targets {
		requests = append(requests, request(http.MethodGet, target))
	}
	for _, r := range requests {
		r.Header.Set("Content-Type", "application/json")
		before := source.asked.Load()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", r.URL, w.Code, w.Body)
		}
		if got := source.asked.Load() - before; got != 1 {
			t.Errorf("%s asked for the rates %d times, want once", r.URL, got)
		}
		if got := strings.Count(w.Body.String(), "2026-09-28"); r.Method == http.MethodPost && got != 0 && got != 100 {
			t.Errorf("%d of 100 conversions are of the newer rates", got)
		}
		if got, want := w.Header().Get("Cache-Control"), "private, max-age=0"; r.Method == http.MethodGet && got != want {
			t.Errorf("Cache-Control = %q with rates overdue, want %q", got, want)
		}
	}
}
