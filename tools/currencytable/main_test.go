package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inputs writes the three sources, with a few currencies and the names of
// all that facts add.
func inputs(t *testing.T, iso string) (args []string, out string) {
	t.Helper()
	folder := t.TempDir()
	names := map[string]map[string]string{"CHF": {"displayName": "Swiss Franc"}, "AAA": {"displayName": "A", "symbol": `"`}}
	for code := range facts() {
		names[code] = map[string]string{"displayName": "Name of " + code}
	}
	text, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"iso":   iso,
		"names": `{"main":{"en":{"numbers":{"currencies":` + string(text) + `}}}}`,
		"dates": `{"supplemental":{"currencyData":{"region":{
			"CH":[{"CHF":{"_from":"1850-05-07"}}], "LI":[{"CHF":{"_from":"1921-01-01"}}],
			"DE":[{"EUR":{"_from":"1999-01-01"}}], "ZZ":[{"AAA":{"_tender":"false"}}]}}}}`,
	}
	out = filepath.Join(folder, "table.go")
	args = []string{"-out", out}
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-"+name, path)
	}
	return args, out
}

func list(entries ...string) string {
	var text strings.Builder
	for _, entry := range entries {
		f := strings.Fields(entry)
		fmt.Fprintf(&text, "<CcyNtry><CcyNm>%s</CcyNm><Ccy>%s</Ccy><CcyNbr>%s</CcyNbr><CcyMnrUnts>%s</CcyMnrUnts></CcyNtry>", f[0], f[0], f[1], f[2])
	}
	return "<ISO_4217><CcyTbl>" + text.String() + "<CcyNtry><CtryNm>ANTARCTICA</CtryNm></CcyNtry></CcyTbl></ISO_4217>"
}

func TestTable(t *testing.T) {
	t.Parallel()
	args, out := inputs(t, list("CHF 756 2", "AAA 001 N.A.", "EUR 978 2", "CHF 756 2"))
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{Code: "AAA", Name: "A", Numeric: "001", MinorUnit: -1, Symbol: "\""},`,
		`{Code: "CHF", Name: "Swiss Franc", Numeric: "756", MinorUnit: 2, Symbol: "CHF", Start: civil.New(1850, 5, 7)},`,
		`Numeric: "978", MinorUnit: 2, Symbol: "EUR", Start: civil.New(1999, 1, 4)},`,
		`End: civil.New(2022, 12, 31), Successor: "EUR", Ratio: "7.53450"},`,
	} {
		if strings.Count(string(table), want) != 1 {
			t.Errorf("the table lacks %s", want)
		}
	}
	if a, c := strings.Index(string(table), `"AAA"`), strings.Index(string(table), `"CHF"`); a > c {
		t.Error("the table is not sorted")
	}
}

func TestTableRefused(t *testing.T) {
	t.Parallel()
	for name, iso := range map[string]string{
		"a minor unit that is no number": list("CHF 756 two"),
		"a currency without a name":      list("BBB 002 2"),
		"no XML":                         "Code,Name",
	} {
		iso = strings.Replace(iso, "<CcyNm>BBB</CcyNm>", "", 1)
		args, out := inputs(t, iso)
		if err := run(args); err == nil {
			t.Errorf("%s was taken", name)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: a table was written", name)
		}
	}
}
