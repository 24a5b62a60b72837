// Package currency knows the currencies of ISO 4217: their codes, names,
// minor units and symbols, when each began and ended, and what replaced it.
//
// A list of codes alone is not enough for exchange rates. Feeds go on
// quoting currencies that no longer exist, often at a frozen and badly
// rounded constant, and reuse three-letter codes for things that are no
// currency at all. So the table is an allow-list with dates: what is not in
// it is no currency, and what has ended has no rate after its last day.
package currency

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// Euro is the currency that all rates are kept against.
const Euro Code = "EUR"

// NoMinorUnit is the MinorUnit of metals and units of account, for which
// ISO 4217 says "N.A.".
const NoMinorUnit = -1

// ErrMalformed is wrapped by the error for text that cannot be a code.
var ErrMalformed = errors.New("not three letters")

// Code is an alphabetic code of ISO 4217 in upper case, such as "EUR".
type Code string

// Parse reads a code: three ASCII letters in any case. Whether a currency
// has it, Lookup tells. Its error wraps ErrMalformed.
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
	// Symbol is what stands before an amount in English, or the code.
	Symbol string
	// Start is the first day of the currency, zero where no date is known
	// (metals and units of account).
	Start civil.Date
	// End is the last day of the currency, zero while it lives.
	End civil.Date
	// Successor is what replaced a currency that has ended.
	Successor Code
	// Ratio is how many units one unit of the successor replaced, as a
	// plain decimal; empty where no finite decimal says it.
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

// Lookup returns the currency with that code, living or ended.
func Lookup(code Code) (Currency, bool) {
	i, found := slices.BinarySearchFunc(table, code, func(c Currency, code Code) int {
		return strings.Compare(string(c.Code), string(code))
	})
	if !found {
		return Currency{}, false
	}
	return table[i], true
}

// All yields every currency, living or ended, sorted by code.
func All() iter.Seq[Currency] {
	return slices.Values(table)
}
