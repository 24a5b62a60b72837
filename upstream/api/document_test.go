package api_test

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/upstream/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

var update = flag.Bool("update", false, "write the golden files anew")

// exampleRates are the few rates behind the examples of the document.
func exampleRates(t testing.TB) *rates.Dataset {
	t.Helper()
	var b rates.Builder
	for _, line := range []struct {
		day    string
		source rates.Source
		values string
	}{
		{"2026-09-23", rates.SourceECB, "GBP 0.87402 JPY 174.11 USD 1.1779"},
		{"2026-09-24", rates.SourceECB, "GBP 0.87288 JPY 174.02 USD 1.1732"},
		{"2026-09-25", rates.SourceECB, "GBP 0.87245 JPY 174.60 USD 1.1701"},
		{"2026-09-25", rates.SourceSnapshot, "KWD 0.35712345678 XAU 0.000312345678"},
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

// TestExamples holds the examples of the document against what is served.
func TestExamples(t *testing.T) {
	t.Parallel()
	handler, err := api.New(sourceOf(exampleRates(t)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	request, err := os.ReadFile("examples/batch_request.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*http.Request{
		"currencies": httptest.NewRequest(http.MethodGet, "/api/currencies", nil),
		"convert":    httptest.NewRequest(http.MethodGet, "/api/convert/EUR/100/USD?date=2026-09-25", nil),
		"rates":      httptest.NewRequest(http.MethodGet, "/api/rates/EUR?date=2026-09-25&symbols=USD,GBP", nil),
		"history":    httptest.NewRequest(http.MethodGet, "/api/history/EUR/USD?start_date=2026-09-21&end_date=2026-09-27&fill=previous", nil),
		"batch":      httptest.NewRequest(http.MethodPost, "/api/convert/batch", strings.NewReader(string(request))),
	} {
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		text := jsontext.Value(w.Body.Bytes())
		if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("examples", name+".json"), append(text, '\n'))
	}
}
