package ecb

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// fixture reads a file in the bank's format with the facts of a few days.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func zipped(t testing.TB, name string, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	file, err := archive.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestParse(t *testing.T) {
	t.Parallel()
	history := fixture(t, "eurofxref-hist.csv")
	tests := []struct {
		name    string
		content []byte
		records int
	}{
		{"history", history, 11*29 + 30}, // eleven days, and one with the lev
		{"zipped history", zipped(t, "eurofxref-hist.csv", history), 11*29 + 30},
		{"daily", fixture(t, "eurofxref-daily.xml"), 29},
		{"Windows lines", []byte("Date,USD,\r\n2026-04-13,1.1684,\r\n"), 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			records, err := parse(test.content)
			if err != nil || len(records) != test.records {
				t.Fatalf("got %d records, %v, want %d", len(records), err, test.records)
			}
			want := record{civil.New(2026, 4, 13), "USD", "1.1684"}
			if records[0] != want {
				t.Errorf("got %v, want %v", records[0], want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	history, daily := fixture(t, "eurofxref-hist.csv"), fixture(t, "eurofxref-daily.xml")
	archive := zipped(t, "eurofxref-hist.csv", history)
	tests := map[string][]byte{
		"nothing":                nil,
		"a page":                 []byte("<!DOCTYPE html><html><body>Sorry</body></html>"),
		"a cut line":             history[:len(history)-40],
		"a cut archive":          archive[:len(archive)-30],
		"an archive of no table": zipped(t, "readme.txt", history),
		"cut XML":                daily[:len(daily)-30],
		"XML with another date":  bytes.Replace(daily, []byte("2026-04-13"), []byte("13.04.2026"), 1),
		"a day twice":            []byte("Date,USD,\n2026-04-13,1.1,\n2026-04-13,1.2,\n"),
		"a currency twice":       []byte("Date,USD,USD,\n2026-04-13,1.1,1.2,\n"),
		"not one value":          []byte("Date,USD,\n2026-04-13,N/A,\n"),
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if records, err := parse(content); !errors.Is(err, ErrMalformed) {
				t.Errorf("got %d records, %v, want ErrMalformed", len(records), err)
			}
		})
	}
}

// Threat: some kilobytes of zip that unpack to gigabytes and take the memory
// of the process.
func TestZipBomb(t *testing.T) {
	t.Parallel()
	bomb := zipped(t, "eurofxref-hist.csv", bytes.Repeat([]byte{'0'}, maxTable+1))
	if len(bomb) > maxBody {
		t.Fatalf("the bomb has %d bytes and would not be let in", len(bomb))
	}
	if _, err := parse(bomb); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(fixture(f, "eurofxref-hist.csv"))
	f.Add(fixture(f, "eurofxref-daily.xml"))
	f.Add(zipped(f, "a.csv", []byte("Date,USD,\n2026-04-13,1.1,\n")))
	f.Fuzz(func(t *testing.T, content []byte) {
		records, err := parse(content)
		if (err == nil) != (len(records) > 0) {
			t.Fatalf("%d records with %v", len(records), err)
		}
		for _, r := range records {
			if r.day.IsZero() || len(r.code) != 3 || strings.ToUpper(string(r.code)) != string(r.code) {
				t.Fatal(fmt.Sprint(r))
			}
		}
	})
}

func embedded(t *testing.T) *rates.Dataset {
	t.Helper()
	data, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The guards believe every value of the embedded file: the bank can publish
// the same file again.
func TestGuardsBelieveTheEmbeddedFile(t *testing.T) {
	t.Parallel()
	data := embedded(t)
	if got, waiting := believe(data); got != data || len(waiting) != 0 {
		t.Errorf("%d of %d days are believed, %v waits", got.Days(), data.Days(), waiting)
	}
	records, err := parse(history)
	if err != nil {
		t.Fatal(err)
	}
	quotes, report, err := screen(records, data, data.Newest())
	if err != nil || report.Accepted != len(records) || report.Dropped() != 0 {
		t.Errorf("got %+v for %d values, %v", report, len(records), err)
	}
	for _, q := range quotes {
		if q.Value != valueOn(data, q.Day, q.Code) {
			t.Fatalf("the embedded rates lack %s on %s: %s", q.Code, q.Day, q.Value)
		}
	}
}
