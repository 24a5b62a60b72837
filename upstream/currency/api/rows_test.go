package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	asCSV   = "text/csv"
	asLines = "application/x-ndjson"
)

// tables are requests whose answers have rows.
var tables = []string{
	"/api/currencies", "/api/rates/EUR", "/api/rates/kyd?symbols=USD,XOF&date=2026-09-24", "/api/history/EUR/USD", "/api/history/USD/KYD?fill=previous",
	"/api/history/EUR/USD,VND,XOF?group=week&start_date=2026-08-31", "/api/history/USD/bgn,jpy,EUR?start_date=2025-12-29&end_date=2026-01-04&fill=previous&source=ECB,parity,indicative",
	"/api/rates/XOF?source=parity", "/api/rates/EUR?symbols=XOF", "/api/history/EUR/EUR,XOF",
}

func (s *serving) as(t testing.TB, mediaType, target string) answer {
	t.Helper()
	a := s.do(t, request(http.MethodGet, target, "Accept", mediaType))
	if a.status != http.StatusOK {
		t.Fatalf("%s as %s: %d %s", target, mediaType, a.status, a.body)
	}
	return a
}

// records reads CSV: a map of the fields of each line by column.
func records(t testing.TB, text []byte) (columns []string, lines []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(bytes.NewReader(text)).ReadAll() // all lines have the fields of the first
	if err != nil {
		t.Fatal(err)
	}
	for _, fields := range all[1:] {
		line := map[string]string{}
		for i, column := range all[0] {
			line[column] = fields[i]
		}
		lines = append(lines, line)
	}
	return all[0], lines
}

// rowsOf returns the rows of a JSON answer as lines of NDJSON have them, but
// for the sources.
func rowsOf(t testing.TB, answer []byte) (rows []string) {
	t.Helper()
	var list struct {
		Currencies []jsontext.Value
		Date, Base string
		Rates      jsontext.Value
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		t.Fatal(err)
	}
	switch list.Rates.Kind() {
	case '{':
		var table map[string]jsontext.Value
		if err := json.Unmarshal(list.Rates, &table); err != nil {
			t.Fatal(err)
		}
		for _, code := range slices.Sorted(maps.Keys(table)) {
			rows = append(rows, fmt.Sprintf(`{"date":"%s","base":"%s","code":"%s","rate":%s}`, list.Date, list.Base, code, table[code]))
		}
		return rows
	case '[':
		if err := json.Unmarshal(list.Rates, &list.Currencies); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range list.Currencies {
		rows = append(rows, string(row))
	}
	return rows
}

// field returns what CSV has in a column for a row of JSON.
func field(t testing.TB, row, column string) string {
	t.Helper()
	text := jsontext.Value(row)
	path := []string{column}
	if part, found := strings.CutPrefix(column, "parity_"); found {
		path = []string{"parity", part}
	} else if len(column) == 3 {
		path = []string{"rates", column}
	}
	for _, name := range path {
		var object map[string]jsontext.Value
		if err := json.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		if text = object[name]; text == nil {
			return map[string]string{"filled": "false"}[column]
		}
	}
	switch text.Kind() {
	case '"':
		var plain string
		if err := json.Unmarshal(text, &plain); err != nil {
			t.Fatal(err)
		}
		return plain
	case 'n':
		return ""
	}
	return string(text)
}

// TestRows: CSV and NDJSON have the rows of the JSON, with the same digits, and
// each with a source.
func TestRows(t *testing.T) {
	t.Parallel()
	s := serveWith(t, withParities(t))
	for _, target := range tables {
		body, all := s.get(t, target).body, map[string]bool{}
		want := rowsOf(t, body)
		text := string(s.as(t, asLines, target).body)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		columns, fields := records(t, s.as(t, asCSV, target).body)
		if len(want) == 0 || len(lines) != len(want) || len(fields) != len(want) || !strings.HasSuffix(text, "\n") {
			t.Fatalf("%s: %d rows of JSON, %d of NDJSON, %d of CSV", target, len(want), len(lines), len(fields))
		}
		for i, line := range lines {
			source := field(t, line, "source")
			if without := strings.Replace(line, `,"source":"`+source+`"}`, "}", 1); without != want[i] && line != want[i] {
				t.Errorf("%s: NDJSON has %s, JSON has %s", target, line, want[i])
			}
			for _, column := range columns {
				if got, want := fields[i][column], field(t, line, column); got != want {
					t.Errorf("%s, line %d, %s: CSV has %q, NDJSON has %q", target, i, column, got, want)
				}
			}
			if source == "" || fields[i]["source"] == "" {
				t.Errorf("%s: %s has no source", target, line)
			}
			if strings.Contains(line, `"base":"EUR","code":"EUR"`) {
				continue // it needs no rate
			}
			for name := range strings.SplitSeq(source, "+") {
				all[name] = true
			}
		}
		var whole struct{ Source string }
		if err := json.Unmarshal(body, &whole); err != nil {
			t.Fatal(err)
		}
		if names := strings.Split(whole.Source, "+"); whole.Source != "" && !slices.Equal(slices.Sorted(maps.Keys(all)), slices.Sorted(slices.Values(names))) {
			t.Errorf("%s: the sources of the rows are %v, those of the answer %v", target, all, names)
		}
	}
}

// TestSourceOfTheBase: the row of the base itself has its own source, whatever
// other rows the answer has.
func TestSourceOfTheBase(t *testing.T) {
	t.Parallel()
	s := serveWith(t, withParities(t))
	for target, want := range map[string]string{
		"/api/rates/EUR":                                          "ECB",
		"/api/rates/EUR?symbols=EUR":                              "ECB",
		"/api/rates/EUR?symbols=XOF":                              "ECB",
		"/api/rates/EUR?symbols=VND":                              "ECB",
		"/api/rates/EUR?symbols=XOF,VND":                          "ECB",
		"/api/rates/EUR?symbols=XOF&source=parity":                "parity",
		"/api/rates/EUR?symbols=XOF,VND&source=parity,indicative": "parity",
		"/api/rates/USD?symbols=XOF":                              "ECB",
		"/api/rates/XOF?symbols=USD,VND":                          "parity",
		"/api/rates/KYD?symbols=EUR":                              "ECB+parity",
		"/api/rates/VND?symbols=USD":                              "indicative",
	} {
		_, fields := records(t, s.as(t, asCSV, target).body)
		lines := strings.Split(string(s.as(t, asLines, target).body), "\n")
		found := false
		for i, row := range fields {
			if row["code"] != row["base"] {
				continue
			}
			found = true
			if got := field(t, lines[i], "source"); row["source"] != want || got != want {
				t.Errorf("%s: CSV has %q, NDJSON has %q, want %q", target, row["source"], got, want)
			}
		}
		if !found {
			t.Errorf("%s: no row of the base", target)
		}
	}
}

// TestRepresentations: each media type of an answer has an ETag of its own, and
// is cached as JSON is.
func TestRepresentations(t *testing.T) {
	t.Parallel()
	s := serveWith(t, withParities(t))
	for _, target := range tables {
		seen := map[string]string{}
		for mediaType, contentType := range map[string]string{"application/json": "application/json", asCSV: "text/csv; charset=utf-8", asLines: "application/x-ndjson"} {
			a := s.as(t, mediaType, target)
			etag := a.header.Get("ETag")
			sum := sha256.Sum256(a.body)
			if want := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`; etag != want {
				t.Errorf("%s as %s: ETag %s, want the digest %s", target, mediaType, etag, want)
			}
			if other := seen[etag]; other != "" {
				t.Errorf("%s: %s and %s have the same ETag", target, mediaType, other)
			}
			seen[etag] = mediaType
			for name, want := range map[string]string{"Content-Type": contentType, "Vary": "Accept", "Cache-Control": "private, max-age=5400"} {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s as %s: %s = %q, want %q", target, mediaType, name, got, want)
				}
			}
			if again := s.do(t, request(http.MethodGet, target, "Accept", mediaType, "If-None-Match", etag)); again.status != http.StatusNotModified || len(again.body) > 0 || again.header.Get("ETag") != etag {
				t.Errorf("%s as %s again: got %d with %d bytes, want an empty 304", target, mediaType, again.status, len(again.body))
			}
			head := s.do(t, request(http.MethodHead, target, "Accept", mediaType))
			if head.status != http.StatusOK || len(head.body) > 0 || head.header.Get("ETag") != etag || head.header.Get("Content-Type") != contentType {
				t.Errorf("HEAD %s as %s: got %d %v with %d bytes", target, mediaType, head.status, head.header, len(head.body))
			}
		}
	}
}

// TestRowsAreOfTables: the other calls have only JSON, and a refusal is JSON
// whatever the client accepts.
func TestRowsAreOfTables(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, mediaType := range []string{asCSV, asLines} {
		s.do(t, request(http.MethodGet, "/api/convert/EUR/1/USD", "Accept", mediaType)).refused(t, 406, "not_acceptable")
		s.do(t, request(http.MethodPost, "/api/convert/batch", "Accept", mediaType)).refused(t, 406, "not_acceptable")
		for target, want := range map[string]struct {
			status int
			code   string
		}{
			"/api/currencies?x=1":                 {400, "unknown_parameter"},
			"/api/rates/EURO":                     {400, "invalid_currency"},
			"/api/rates/ZZZ":                      {404, "unknown_currency"},
			"/api/history/EUR/BGN":                {404, "currency_retired"},
			"/api/history/EUR/USD?summary=change": {400, "invalid_request"},
		} {
			a := s.do(t, request(http.MethodGet, target, "Accept", mediaType))
			p := a.refused(t, want.status, want.code)
			if a.header.Get("Vary") != "Accept" || strings.Contains(target, "summary") && !strings.Contains(p.Message, "only rows") {
				t.Errorf("%s as %s: %v %s", target, mediaType, a.header, a.body)
			}
		}
	}
	for target, want := range map[string]string{"/api/currencies": "application/json, text/csv, application/x-ndjson.", "/api/convert/EUR/1/USD": "application/json."} {
		if p := s.do(t, request(http.MethodGet, target, "Accept", "text/html")).refused(t, 406, "not_acceptable"); !strings.HasSuffix(p.Message, ": "+want) {
			t.Errorf("%s: %q does not list %s", target, p.Message, want)
		}
	}
	for accept, want := range map[string]string{
		"": "application/json", "*/*": "application/json", "text/csv, */*;q=0.9": "text/csv; charset=utf-8",
		"text/html, application/xhtml+xml, */*;q=0.8": "application/json", "text/csv;q=0.4, application/x-ndjson;q=0.5": "application/x-ndjson",
	} {
		if got := s.do(t, request(http.MethodGet, "/api/currencies", "Accept", accept)).header.Get("Content-Type"); got != want {
			t.Errorf("Accept: %s: got %s, want %s", accept, got, want)
		}
	}
}

// TestNoFormulas: a spreadsheet takes no field of CSV for a formula (CWE-1236).
// The texts are names, symbols and authorities of the embedded tables, and no
// text of a request is among them.
func TestNoFormulas(t *testing.T) {
	t.Parallel()
	safe := func(what, text string) {
		if strings.IndexAny(text, "=+-@\t\r\n") == 0 {
			t.Errorf("%s begins with %q", what, text[:1])
		}
	}
	for _, file := range []string{"../table.csv", "../rates/parities.csv"} {
		for _, line := range embedded(t, file) {
			for _, text := range line {
				if text != "-1" { // the minor unit of what has none, which no answer has
					safe(line[0]+" of "+file, text)
				}
			}
		}
	}
	s := serveWith(t, withParities(t))
	for _, target := range tables {
		_, lines := records(t, s.as(t, asCSV, target).body)
		for i, line := range lines {
			for column, text := range line {
				safe(fmt.Sprintf("%s, line %d, %s", target, i, column), text)
			}
		}
	}
}

// embedded returns the lines of an embedded table.
func embedded(t *testing.T, file string) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return lines[1:]
}

// TestRowsInOtherPrograms reads CSV with Python and awk, and NDJSON with jq.
func TestRowsInOtherPrograms(t *testing.T) {
	t.Parallel()
	s := serveWith(t, withParities(t))
	target := "/api/history/EUR/USD,VND,XOF?start_date=2026-09-21&end_date=2026-09-26&fill=previous"
	for _, test := range []struct {
		mediaType, target, want string
		program                 []string
	}{
		{asCSV, target, "True True 6", []string{"python3", "-c", `
import csv, sys
rows = list(csv.DictReader(sys.stdin))
print(sum(float(r["USD"]) for r in rows) == 1.1789 + 1.1808 + 1.1779 + 1.1732 + 1.1701 + 1.1701, rows[0]["VND"] == "", len(rows))`}},
		{asCSV, target, "1 5", []string{"awk", "-F,", `$NF == "ECB+parity" { plain++ } $NF == "ECB+parity+indicative" { others++ } END { print plain, others }`}},
		{asLines, target, "6 true", []string{"jq", "-rs", `"\(length) \(.[5].filled)"`}},
		{asLines, "/api/currencies", "Cayman Islands Monetary Authority", []string{"jq", "-r", `select(.code == "KYD") | .parity.authority`}},
	} {
		command := exec.CommandContext(t.Context(), test.program[0], test.program[1:]...)
		command.Stdin = bytes.NewReader(s.as(t, test.mediaType, test.target).body)
		got, err := command.CombinedOutput()
		if err != nil || strings.TrimSpace(string(got)) != test.want {
			t.Errorf("%s: got %s (%v), want %s", test.program[0], got, err, test.want)
		}
	}
}
