package currency_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]currency.Code{"EUR": "EUR", "usd": "USD", "gBp": "GBP", "zzz": "ZZZ"} {
		if got, err := currency.Parse(text); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "US", "USDX", "U5D", "ＵＳＤ", "ıls", "\x00\x00\x00", "U D", "[[[", "{{{", "@@@", "```", "ſeK"} {
		if got, err := currency.Parse(text); !errors.Is(err, currency.ErrMalformed) {
			t.Errorf("%q: got %q, %v, want ErrMalformed", text, got, err)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	euro, found := currency.Lookup(currency.Euro)
	if !found || euro.Name != "Euro" || euro.Numeric != "978" || euro.MinorUnit != 2 || euro.Symbol != "€" || !euro.End.IsZero() {
		t.Errorf("got %+v, %v", euro, found)
	}
	for _, code := range []currency.Code{"ZZZ", "BTC", "ONE", "UNI", "", "eur", "VAL", "SPL", "TVD"} {
		if got, found := currency.Lookup(code); found {
			t.Errorf("%s: got %+v, want nothing", code, got)
		}
	}
}

// The minor units of ISO 4217, and not CLDR's cash digits, which differ for
// a score of currencies (HUF, IDR, ISK …).
func TestMinorUnits(t *testing.T) {
	t.Parallel()
	want := make(map[currency.Code]int)
	for units, codes := range map[int]string{
		0:                    "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
		3:                    "BHD IQD JOD KWD LYD OMR TND",
		4:                    "CLF UYW",
		currency.NoMinorUnit: "XAU XAG XPT XPD XDR XSU XUA XBA XBB XBC XBD XTS XXX",
	} {
		for code := range strings.FieldsSeq(codes) {
			want[currency.Code(code)] = units
		}
	}
	today := civil.New(2026, 11, 20)
	for _, c := range currency.Table {
		if !c.ActiveOn(today) {
			continue
		}
		units, listed := want[c.Code]
		if !listed {
			units = 2
		}
		if c.MinorUnit != units {
			t.Errorf("%s: got %d, want %d", c.Code, c.MinorUnit, units)
		}
		delete(want, c.Code)
	}
	if len(want) > 0 {
		t.Errorf("missing from the table: %v", want)
	}
}

func TestRetired(t *testing.T) {
	t.Parallel()
	tests := []struct {
		code, successor currency.Code
		firstWithout    string
		ratio           string
	}{
		{"DEM", "EUR", "2002-01-01", "1.95583"},
		{"HRK", "EUR", "2023-01-01", "7.53450"},
		{"BGN", "EUR", "2026-01-01", "1.95583"},
		{"BYR", "BYN", "2016-07-01", "10000"},
		{"VEF", "VES", "2018-08-20", "100000"},
		{"CUC", "CUP", "2021-07-01", ""},
		{"ZWL", "ZWG", "2024-09-01", "2498.7242"},
		{"ANG", "XCG", "2025-03-31", "1"},
	}
	for _, test := range tests {
		t.Run(string(test.code), func(t *testing.T) {
			t.Parallel()
			c, found := currency.Lookup(test.code)
			if !found || c.Successor != test.successor || c.Ratio != test.ratio {
				t.Fatalf("got %+v, %v", c, found)
			}
			first, err := civil.Parse(test.firstWithout)
			if err != nil {
				t.Fatal(err)
			}
			if !c.ActiveOn(first-1) || c.RetiredOn(first-1) {
				t.Errorf("%s must still be active", first-1)
			}
			if c.ActiveOn(first) || !c.RetiredOn(first) {
				t.Errorf("%s must no longer be active", first)
			}
		})
	}
}

// What holds for every line: it was generated, but facts were typed.
func TestTable(t *testing.T) {
	t.Parallel()
	var codes []currency.Code
	numeric := make(map[string]currency.Code)
	today := civil.New(2026, 11, 20)
	active := 0
	for _, c := range currency.Table {
		codes = append(codes, c.Code)
		if parsed, err := currency.Parse(string(c.Code)); err != nil || parsed != c.Code {
			t.Errorf("%s is no code", c.Code)
		}
		if len(c.Numeric) != 3 || strings.Trim(c.Numeric, "0123456789") != "" {
			t.Errorf("%s: number %q", c.Code, c.Numeric)
		}
		if c.Name == "" || c.Symbol == "" {
			t.Errorf("%s: name %q, symbol %q", c.Code, c.Name, c.Symbol)
		}
		if c.End.IsZero() != (c.Successor == "") || !c.End.IsZero() && c.End < c.Start {
			t.Errorf("%s: from %s to %s, then %s", c.Code, c.Start, c.End, c.Successor)
		}
		if c.Successor != "" {
			if next, found := currency.Lookup(c.Successor); !found || next.Start > c.End+1 && next.Code != currency.Euro && next.Code != "ZWL" {
				t.Errorf("%s: successor %+v, %v", c.Code, next, found)
			}
		}
		if c.ActiveOn(today) {
			active++
			if other, taken := numeric[c.Numeric]; taken {
				t.Errorf("%s and %s both have %s", c.Code, other, c.Numeric)
			}
			numeric[c.Numeric] = c.Code
		}
	}
	if !slices.IsSorted(codes) || len(slices.Compact(slices.Clone(codes))) != len(codes) {
		t.Error("the codes are not sorted and unique")
	}
	if active != 178 {
		t.Errorf("got %d active currencies, want 178", active)
	}
}
