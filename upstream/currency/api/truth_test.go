package api_test

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"errors"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
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
	days      []string
	bank      map[string]map[string]string // by day and code, as it is written
	published []string                     // the days of the bank
	pegs      []*peg
	codes     []string           // sorted
	quotes    map[string][]quote // by code and number of the day
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
	f.published = slices.Sorted(maps.Keys(f.bank))
	f.add("EUR", func(day string) quote { return quote{text: "1", own: f.bank[day] != nil} })
	for _, code := range slices.Concat(bank[0][1:], table[0][1:]) {
		f.add(code, func(day string) quote {
			if of, published := f.ofBank(code, day); published {
				return of
			}
			text, found := indicative[day][code]
			return quote{text: text, sources: indicativeSource, own: found}
		})
	}
	for _, p := range f.pegs {
		f.add(p.code, func(string) quote { return quote{} })
		for i, day := range f.days {
			base, q := f.quotes[p.base][i], &f.quotes[p.code][i]
			if p.base == "EUR" && apart(f.newest(day), day) > 14 {
				base.text = ""
			}
			if p.holds(day) && base.text != "" && q.sources != bankSource {
				*q = quote{base.text, base.sources | paritySource, p, base.own}
			}
		}
	}
	f.codes = slices.Sorted(maps.Keys(f.quotes))
	return f, nil
})

// newest returns the day of the bank's newest publication on a day.
func (f *truth) newest(day string) string {
	i, found := slices.BinarySearch(f.published, day)
	if !found {
		i--
	}
	return f.published[i]
}

// ofBank says whether the bank publishes a currency on a day: one of its last
// publications has it, at most 14 days older than the newest. The quote is that
// of the newest, or nothing if that is older than 14 days or the currency ended.
func (f *truth) ofBank(code, day string) (quote, bool) {
	newest := f.newest(day)
	i, _ := slices.BinarySearch(f.published, newest)
	for ; i >= 0 && apart(f.published[i], newest) <= 14; i-- {
		text, found := f.bank[f.published[i]][code]
		if !found {
			continue
		}
		if known, _ := currency.Lookup(currency.Code(code)); f.published[i] != newest || apart(newest, day) > 14 || day > known.End.String() && !known.End.IsZero() {
			text = ""
		}
		return quote{text: text, sources: bankSource, own: newest == day}, true
	}
	return quote{}, false
}

// apart returns how many days later a day is.
func apart(earlier, later string) int {
	a, errA := civil.Parse(earlier)
	b, errB := civil.Parse(later)
	if err := errors.Join(errA, errB); err != nil {
		panic(err)
	}
	return int(b - a)
}

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
// written, times the rate of a parity if there is one. It is the bank's as long
// as it publishes the currency, or else a parity's, or else indicative. Without
// text there is none. The last value of the bank is no own one of the day.
type quote struct {
	text    string
	sources sources
	parity  *peg
	own     bool
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
