package api_test

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The tests of all data read what they expect from the three files with the code
// of this file, and compute with big.Rat.

// peg is a line of the parities. Text is its rate as the API writes it.
type peg struct {
	code, base, since, until string
	rate                     *big.Rat
	text                     string
}

// truth is what the files say.
type truth struct {
	days   []string
	bank   map[string]map[string]string // by day and code, as it is written
	pegs   []*peg
	codes  []string           // sorted
	quotes map[string][]quote // by code and number of the day
}

var readTruth = sync.OnceValues(func() (*truth, error) {
	packed, err := os.ReadFile("../rates/ecb/eurofxref-hist.zip")
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, err
	}
	bank, err := readLines(archive, "eurofxref-hist.csv")
	if err != nil {
		return nil, err
	}
	table, err := readLines(os.DirFS("../rates"), "indicative.csv")
	if err != nil {
		return nil, err
	}
	parities, err := readLines(os.DirFS("../rates"), "parities.csv")
	if err != nil {
		return nil, err
	}
	f, indicative := &truth{bank: values(bank), quotes: make(map[string][]quote)}, values(table)
	for _, line := range parities[1:] {
		rate := new(big.Rat).Quo(number(line[1]), number(line[2]))
		f.pegs = append(f.pegs, &peg{line[0], line[3], line[4], line[5], rate, digits(rate, 12)})
	}
	days := maps.Clone(f.bank)
	maps.Copy(days, indicative)
	f.days = slices.Sorted(maps.Keys(days))
	f.add("EUR", func(string) quote { return quote{text: "1"} })
	for _, code := range slices.Concat(bank[0][1:], table[0][1:]) {
		f.add(code, func(day string) quote {
			if text, found := f.bank[day][code]; found {
				return quote{text: text, sources: bankSource}
			}
			return quote{text: indicative[day][code], sources: indicativeSource}
		})
	}
	for _, p := range f.pegs {
		f.add(p.code, func(string) quote { return quote{} })
		for i, day := range f.days {
			base, q := f.quotes[p.base][i], &f.quotes[p.code][i]
			if p.holds(day) && base.text != "" && (q.text == "" || q.sources != bankSource) {
				*q = quote{base.text, base.sources | paritySource, p}
			}
		}
	}
	f.codes = slices.Sorted(maps.Keys(f.quotes))
	return f, nil
})

// add adds the quotes of a currency, unless it has some.
func (f *truth) add(code string, on func(day string) quote) {
	if f.quotes[code] != nil || code == "" {
		return
	}
	for _, day := range f.days {
		f.quotes[code] = append(f.quotes[code], on(day))
	}
}

func readLines(files fs.FS, name string) ([][]string, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	return csv.NewReader(bytes.NewReader(text)).ReadAll()
}

// values returns the values of a table with a line a day and a column a
// currency, by day and code.
func values(lines [][]string) map[string]map[string]string {
	all := make(map[string]map[string]string)
	for _, line := range lines[1:] {
		day := make(map[string]string)
		for i, text := range line[1:] {
			if code := lines[0][i+1]; code != "" && text != "" && text != "N/A" {
				day[code] = text
			}
		}
		all[line[0]] = day
	}
	return all
}

func truthOf(t *testing.T) *truth {
	t.Helper()
	f, err := readTruth()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// quote is what the files say about a currency on a day: a value as it is
// written, times the rate of a parity if there is one. It is the bank's, or else
// a parity's, or else indicative. Without text there is none.
type quote struct {
	text    string
	sources sources
	parity  *peg
}

// sources are bits of the sources of a value.
type sources int

const (
	bankSource sources = 1 << iota
	paritySource
	indicativeSource
)

func (s sources) String() string {
	var names []string
	for i, name := range []string{"ECB", "parity", "indicative"} {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

func (q quote) value() *big.Rat {
	value := number(q.text)
	if q.parity != nil {
		value.Mul(value, q.parity.rate)
	}
	return value
}

// rate returns the rate from the euro as the API writes it.
func (q quote) rate() string {
	switch {
	case q.parity != nil && q.text == "1":
		return q.parity.text
	case q.parity != nil:
		return digits(q.value(), 12)
	case strings.Contains(q.text, "."):
		return strings.TrimRight(strings.TrimRight(q.text, "0"), ".")
	}
	return q.text
}

func (p *peg) holds(day string) bool { return day >= p.since && (p.until == "" || day <= p.until) }

func number(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text + " is no number")
	}
	return r
}

// digits returns a number in plain notation, to some significant digits, half
// to even.
func digits(r *big.Rat, significant int) string {
	const scale = 40
	scaled := new(big.Int).Mul(r.Num(), power(scale))
	decimals := scale - len(scaled.Quo(scaled, r.Denom()).String()) + significant
	numerator, denominator := new(big.Int).Mul(r.Num(), power(max(0, decimals))), new(big.Int).Mul(r.Denom(), power(max(0, -decimals)))
	whole, rest := new(big.Int).QuoRem(numerator, denominator, new(big.Int))
	if half := rest.Lsh(rest, 1).Cmp(denominator); half > 0 || half == 0 && whole.Bit(0) == 1 {
		whole.Add(whole, big.NewInt(1))
	}
	text := whole.String() + strings.Repeat("0", max(0, -decimals))
	if decimals <= 0 {
		return text
	}
	text = strings.Repeat("0", max(0, decimals+1-len(text))) + text
	return strings.TrimRight(strings.TrimRight(text[:len(text)-decimals]+"."+text[len(text)-decimals:], "0"), ".")
}

// power returns a power of ten.
func power(n int) *big.Int { return powers()[n] }

var powers = sync.OnceValue(func() (all []*big.Int) {
	for n := range int64(64) {
		all = append(all, new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil))
	}
	return all
})
