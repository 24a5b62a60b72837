package rates

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// ErrValue is wrapped by every error about text that is not a value.
var ErrValue = errors.New("not a rate: want a plain decimal above zero of at most 18 digits")

// maxValueDigits is what an int64 holds whatever the digits are.
const maxValueDigits = 18

// Value is how many units of a currency one euro bought: a coefficient and
// a power of ten, where a general decimal takes four times the memory. Some
// parities divide it: that keeps them exact. The zero Value is no value.
type Value struct {
	coefficient int64
	exponent    int8
	divisor     uint16 // 0 is 1
}

// ParseValue reads a plain decimal above zero, such as "1.0869" or "185":
// no sign, no exponent, at most 18 digits from the first that is not zero.
// Trailing decimal zeros are dropped. Its error wraps ErrValue.
func ParseValue(s string) (Value, error) {
	whole, fraction, ok := splitPlain(s, maxNumberLength, maxNumberLength)
	fraction = strings.TrimRight(fraction, "0")
	significant := strings.TrimLeft(whole+fraction, "0")
	coefficient, err := strconv.ParseInt(significant, 10, 64)
	if !ok || err != nil || len(significant) > maxValueDigits {
		return Value{}, fmt.Errorf("%.40q: %w", s, ErrValue)
	}
	return Value{coefficient: coefficient, exponent: int8(-len(fraction))}, nil
}

// IsZero reports whether v is no value.
func (v Value) IsZero() bool { return v.coefficient == 0 }

// String returns the value in plain notation, to 18 digits.
func (v Value) String() string { return v.decimal().Text('f') }

// Cmp returns -1, 0 or +1 as v is less than, equal to or more than other.
func (v Value) Cmp(other Value) int { return v.decimal().Cmp(other.decimal()) }

// Jumps reports whether the step from v to next, up or down, is by more
// than half: |ln(next/v)| > ln 1.5.
func (v Value) Jumps(next Value) bool {
	return exceeds(next, v) || exceeds(v, next)
}

// exceeds reports whether a > 1.5 × b, exactly. Both products have at most 19
// digits and are less than 2^63.
func exceeds(a, b Value) bool {
	a.coefficient *= 2
	b.coefficient *= 3
	return a.Cmp(b) > 0
}

func (v Value) decimal() *apd.Decimal {
	if v.divisor != 0 {
		rounded := divided(valueContext, v, one)
		return &rounded.number
	}
	return apd.New(v.coefficient, int32(v.exponent))
}

// Source is the source of values. Sources combine by |: a parity through a
// base has the bits of the base's value, too.
type Source uint8

// The sources, the best first.
const (
	// SourceECB is the European Central Bank's euro reference rates.
	SourceECB Source = 1 << iota
	// SourceParity is a fixed parity with an authority: see Parity.
	SourceParity
	// SourceIndicative is the embedded market rates: see Indicative.
	SourceIndicative

	// AllSources are all of them.
	AllSources = SourceECB | SourceParity | SourceIndicative
)

// SourceNames are the names of the sources, the best first.
var SourceNames = [...]string{"ECB", "parity", "indicative"}

// String returns the names of the sources, joined by +.
func (s Source) String() string {
	names := make([]string, 0, len(SourceNames))
	for i, name := range SourceNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}
