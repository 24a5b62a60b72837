package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// discarded is a response that is not kept.
type discarded struct {
	header http.Header
	length int
}

func (d *discarded) Header() http.Header { return d.header }

func (d *discarded) WriteHeader(int) {}

func (d *discarded) Write(part []byte) (int, error) {
	d.length += len(part)
	return len(part), nil
}

// TestLongAnswersAreStreamed: an answer of 36,600 rates takes less memory than
// its length. The test is not parallel: others would add to the memory.
func TestLongAnswersAreStreamed(t *testing.T) {
	codes := strings.Split("AUD,CAD,CHF,CNY,GBP,JPY,NOK,SEK,USD,ZAR", ",")
	var b rates.Builder
	end := civil.New(2026, 9, 28)
	for day := range civil.Date(3660) {
		for i, code := range codes {
			value, err := rates.ParseValue(fmt.Sprintf("1.%d%04d", 123456+i, day))
			if err != nil {
				t.Fatal(err)
			}
			b.Set(end-day, currency.Code(code), value, rates.SourceECB)
		}
	}
	s := serveWith(t, b.Build())
	target := "/api/history/EUR/" + strings.Join(codes, ",") + "?start_date=2016-09-21&end_date=2026-09-28"
	server := httptest.NewServer(s.handler)
	defer server.Close()
	for _, mediaType := range []string{"application/json", asCSV, asLines} {
		whole := s.send(request(http.MethodGet, target, "Accept", mediaType))
		sum := sha256.Sum256(whole.body)
		if got, want := whole.header.Get("ETag"), `"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`; whole.status != http.StatusOK || got != want {
			t.Errorf("%s: got %d, ETag %s, want the digest %s", mediaType, whole.status, got, want)
		}
		if got := bytes.Count(whole.body, []byte("2020-02-29")); got != 1 || whole.header.Get("Content-Length") != "" {
			t.Errorf("%s: one day is there %d times; %v", mediaType, got, whole.header)
		}
		if head := s.send(request(http.MethodHead, target, "Accept", mediaType)); len(head.body) > 0 || !reflect.DeepEqual(head.header, whole.header) {
			t.Errorf("HEAD as %s: got %d bytes and %v, want %v", mediaType, len(head.body), head.header, whole.header)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", mediaType)
		sent, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(sent.Body)
		sent.Body.Close()
		if err != nil || !bytes.Equal(body, whole.body) || sent.ContentLength != -1 {
			t.Errorf("%s: the server sent %d bytes with the length %d (%v), want chunks of %d", mediaType, len(body), sent.ContentLength, err, len(whole.body))
		}
		// Some calls find an empty pool: with -race, more than a third of them.
		streamed := false
		for range 100 {
			d := &discarded{header: http.Header{}}
			r := request(http.MethodGet, target, "Accept", mediaType)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s.handler.ServeHTTP(d, r)
			runtime.ReadMemStats(&after)
			if d.length != len(whole.body) {
				t.Errorf("%s: %d bytes, want %d", mediaType, d.length, len(whole.body))
			}
			if streamed = after.TotalAlloc-before.TotalAlloc < uint64(len(whole.body)); streamed {
				break
			}
		}
		if !streamed {
			t.Errorf("%s: each call allocated as much as the %d bytes of the answer", mediaType, len(whole.body))
		}
	}
}
