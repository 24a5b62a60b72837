package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

// discard is a ResponseWriter that costs nothing, so that what is measured
// is the API.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// decade is the embedded snapshot with ten years of daily rates of thirty
// currencies before it.
func decade(b *testing.B) *rates.Dataset {
	b.Helper()
	snapshot, err := rates.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	var builder rates.Builder
	codes := []currency.Code{"USD", "JPY"}
	for c := range currency.All() {
		if len(codes) < 30 && c.End.IsZero() && c.Code != currency.Euro {
			codes = append(codes, c.Code)
		}
	}
	newest := civil.Of(now)
	for i := range 3660 {
		for k, code := range codes {
			value, err := rates.ParseValue("1." + strconv.Itoa(1000+(i*7+k*13)%9000))
			if err != nil {
				b.Fatal(err)
			}
			builder.Set(newest-civil.Date(i), code, value, rates.SourceECB)
		}
	}
	return rates.Merge(builder.Build(), snapshot)
}

func BenchmarkHandler(b *testing.B) {
	handler, err := api.New(sourceOf(decade(b)), site, func() time.Time { return now })
	if err != nil {
		b.Fatal(err)
	}
	items := make([]string, 100)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id":"line-%d","from":"EUR","to":"USD","amount":%d.25}`, i, i+1)
	}
	batch := `{"conversions":[` + strings.Join(items, ",") + `]}`
	first := (civil.Of(now) - 3659).String()
	for _, bench := range []struct{ name, method, target, body string }{
		{"convert", http.MethodGet, "/api/convert/EUR/100/USD", ""},
		{"convert dated", http.MethodGet, "/api/convert/EUR/100/USD?date=2026-09-27", ""},
		{"rates", http.MethodGet, "/api/rates/USD?date=2026-09-29", ""},
		{"rates of two", http.MethodGet, "/api/rates/USD?symbols=EUR,JPY", ""},
		{"currencies", http.MethodGet, "/api/currencies", ""},
		{"history of 3660", http.MethodGet, "/api/history/EUR/USD?end_date=2026-09-29&start_date=" + first, ""},
		{"batch of 100", http.MethodPost, "/api/convert/batch", batch},
		{"refusal", http.MethodGet, "/api/convert/EUR/1e3/USD", ""},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := httptest.NewRequest(bench.method, bench.target, nil)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json")
			body := strings.NewReader(bench.body)
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(bench.body)
				r.Body = http.NoBody
				if bench.body != "" {
					r.Body = readCloser{body}
				}
				clear(w.header)
				handler.ServeHTTP(w, r)
			}
		})
	}
}

// readCloser is a body that need not be closed.
type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
