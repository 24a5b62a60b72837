// Package currency has the currencies of ISO 4217: their codes, names, minor
// units and symbols, their first and last day, and their successors.
//
// Feeds still quote retired currencies, often at a frozen and badly rounded
// constant, and use three-letter codes for other things than currencies. So
// the table is an allow-list with dates: a code that is not listed is not a
// currency, and a retired currency has no rate after its last day.
package currency

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// Euro is the base of all stored rates.
const Euro Code = "EUR"

// NoMinorUnit is the MinorUnit of metals and units of account, for which
// ISO 4217 says "N.A.".
const NoMinorUnit = -1

// ErrMalformed is the cause of the error for text that is not a code.
var ErrMalformed = errors.New("not three letters")

// Code is an alphabetic code of ISO 4217 in upper case, such as "EUR".
type Code string

// Parse reads a code: three ASCII letters in any case. It does not check that
// the currency exists; Lookup does. Its error wraps ErrMalformed.
func Parse(s string) (Code, error) {
	if len(s) != 3 {
		return "", fmt.Errorf("%.16q: %w", s, ErrMalformed)
	}
	var upper [3]byte
	for i := range upper {
		letter := s[i] &^ 0x20
		if letter < 'A' || letter > 'Z' {
			return "", fmt.Errorf("%.16q: %w", s, ErrMalformed)
		}
		upper[i] = letter
	}
	return Code(upper[:]), nil
}

// Currency is one line of the table.
type Currency struct {
	Code Code
	// Name is the English name.
	Name string
	// Numeric is the three-digit code. A successor may inherit it: XCG has
	// that of ANG.
	Numeric string
	// MinorUnit is the number of decimals of an amount, or NoMinorUnit.
	MinorUnit int
	// Symbol is the symbol before an amount in English, or the code.
	Symbol string
	// Start is the first day of the currency, zero where no date is known
	// (metals and units of account).
	Start civil.Date
	// End is the last day of the currency, zero if it is active.
	End civil.Date
	// Successor is the currency that replaced a retired one.
	Successor Code
	// Ratio is how many units one unit of the successor replaced, as a
	// plain decimal; empty if there is no finite decimal.
	Ratio string
}

// ActiveOn reports whether the currency existed on that day.
func (c Currency) ActiveOn(day civil.Date) bool {
	return day >= c.Start && (c.End.IsZero() || day <= c.End)
}

// RetiredOn reports whether the currency had ended before that day.
func (c Currency) RetiredOn(day civil.Date) bool {
	return !c.End.IsZero() && day > c.End
}

// Lookup returns the currency with that code, active or retired.
func Lookup(code Code) (Currency, bool) {
	i, found := slices.BinarySearchFunc(table, code, func(c Currency, code Code) int {
		return strings.Compare(string(c.Code), string(code))
	})
	if !found {
		return Currency{}, false
	}
	return table[i], true
}

// table has every currency known here, sorted by code. It is part of the
// program: only a defect can make it panic.
var table = read(text)

// text is the table as tools/currencytable writes it. Its columns are the fields
// of Currency.
//
//go:embed table.csv
var text string

func read(text string) []Currency {
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		panic(fmt.Errorf("reading the table of currencies: %w", err))
	}
	list := make([]Currency, 0, len(lines))
	for _, line := range lines[1:] {
		c := Currency{Code: Code(line[0]), Name: line[1], Numeric: line[2], Symbol: line[4], Successor: Code(line[7]), Ratio: line[8]}
		var malformed error
		c.MinorUnit, malformed = strconv.Atoi(line[3])
		if err := errors.Join(malformed, c.Start.UnmarshalText([]byte(line[5])), c.End.UnmarshalText([]byte(line[6]))); err != nil {
			panic(fmt.Errorf("reading the table of currencies: %s: %w", c.Code, err))
		}
		list = append(list, c)
	}
	return list
}
