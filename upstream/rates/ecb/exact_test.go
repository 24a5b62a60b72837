package ecb_test

import (
	"archive/zip"
	"encoding/csv"
	"io"
	"math/big"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
	"github.com/caddy-tollgate/tollgate/upstream/rates/ecb"
)

// historyVariable names a history file of the bank, zipped or not, that is
// checked beside the fixture: all of it takes a minute or two.
const historyVariable = "TOLLGATE_TEST_ECB_HISTORY"

// TestRatesAreQuotientsOfTheFile: the rate of any pair on any day is v(b)/v(a)
// of the file to twelve significant digits, half-even. The file is read and
// the quotients are made here once more, in fractions of big integers, with
// nothing of what is tested.
func TestRatesAreQuotientsOfTheFile(t *testing.T) {
	t.Parallel()
	files := []string{"testdata/eurofxref-hist.csv"}
	if path := os.Getenv(historyVariable); path != "" {
		files = append(files, path)
	}
	for _, path := range files {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			checkFile(t, path)
		})
	}
}

func checkFile(t *testing.T, path string) {
	table := readTable(t, path)
	newest := parseDate(t, table[1][0])
	p := open(t, ecb.Options{
		Base: new(rates.Builder).Build(),
		Now:  func() time.Time { return newest.Time().Add(20 * time.Hour) },
	})
	report, err := p.Import(path)
	if err != nil {
		t.Fatal(err)
	}
	if dropped := report.Dropped(); dropped > 0 || len(p.Status().Waiting) > 0 {
		t.Errorf("of the file %d values were dropped and %v wait", dropped, p.Status().Waiting)
	}
	data, years := p.Current(), map[string][][]string{}
	for _, row := range table[1:] {
		years[row[0][:4]] = append(years[row[0][:4]], row)
	}
	if got, want := data.Days(), len(table)-1; got != want {
		t.Errorf("got %d days, want %d", got, want)
	}
	var compared atomic.Int64
	t.Cleanup(func() { t.Logf("%d rates compared", compared.Load()) })
	for year, rows := range years {
		t.Run(year, func(t *testing.T) {
			t.Parallel()
			for _, row := range rows {
				day, found := data.On(parseDate(t, row[0]))
				if !found {
					t.Fatalf("%s is missing", row[0])
				}
				compared.Add(checkDay(t, day, valuesOf(t, table[0], row)))
			}
		})
	}
}

// readTable reads the file's table, its header first.
func readTable(t *testing.T, path string) [][]string {
	t.Helper()
	var content io.Reader
	if strings.HasSuffix(path, ".zip") {
		archive, err := zip.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		if content, err = archive.File[0].Open(); err != nil {
			t.Fatal(err)
		}
	} else {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		content = file
	}
	table, err := csv.NewReader(content).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// valuesOf returns the values of a day by currency, the euro's included.
func valuesOf(t *testing.T, header, row []string) map[currency.Code]*big.Rat {
	t.Helper()
	values := map[currency.Code]*big.Rat{currency.Euro: big.NewRat(1, 1)}
	for i, text := range row[1:] {
		if text == "N/A" || text == "" {
			continue
		}
		value, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%s: %q is no number", row[0], text)
		}
		values[currency.Code(header[i+1])] = value
	}
	return values
}

// checkDay compares the rates of every pair and returns how many those are.
func checkDay(t *testing.T, day rates.Day, values map[currency.Code]*big.Rat) int64 {
	t.Helper()
	for base, from := range values {
		table, err := day.Rates(base)
		if err != nil {
			t.Fatalf("%s of %s: %v", base, day.Date(), err)
		}
		if len(table) != len(values) {
			t.Fatalf("%s of %s: got %d rates, want %d", base, day.Date(), len(table), len(values))
		}
		for _, quote := range table {
			want := halfEven(values[quote.Code], from)
			if got, ok := new(big.Rat).SetString(quote.Rate.String()); !ok || got.Cmp(want) != 0 {
				t.Errorf("%s of %s in %s: got %s, want %s", base, day.Date(), quote.Code, quote.Rate, want.FloatString(30))
			}
		}
	}
	return int64(len(values) * len(values))
}

// halfEven returns b/a to twelve significant digits.
func halfEven(b, a *big.Rat) *big.Rat {
	numerator := new(big.Int).Mul(b.Num(), a.Denom())
	denominator := new(big.Int).Mul(b.Denom(), a.Num())
	// So scaled, the quotient has 12 or 13 digits before the point.
	scale := 12 + len(denominator.String()) - len(numerator.String())
	digits, rest := quoRem(numerator, denominator, scale)
	if len(digits.String()) > 12 {
		scale--
		digits, rest = quoRem(numerator, denominator, scale)
	}
	half := big.NewRat(1, 2)
	if c := rest.Cmp(half); c > 0 || c == 0 && digits.Bit(0) == 1 {
		digits.Add(digits, big.NewInt(1))
	}
	return new(big.Rat).SetFrac(new(big.Int).Mul(digits, power(-scale)), power(scale))
}

// quoRem returns the whole and the broken part of n/d × 10^scale.
func quoRem(n, d *big.Int, scale int) (*big.Int, *big.Rat) {
	n, d = new(big.Int).Mul(n, power(scale)), new(big.Int).Mul(d, power(-scale))
	whole, rest := new(big.Int).QuoRem(n, d, new(big.Int))
	return whole, new(big.Rat).SetFrac(rest, d)
}

// power returns 10^exponent, or 1 for a negative exponent.
func power(exponent int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, 0))), nil)
}
