package rates

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

const (
	// resultDigits is the precision of a converted amount.
	resultDigits = 15
	// exactDigits holds the product of an amount (15 digits) and a rate
	// (12 digits) without rounding, and any amount in minor units.
	exactDigits = 60

	amountIntegers  = 15
	amountDecimals  = 10
	amountDigits    = 15
	maxNumberLength = 64
)

// ErrAmount is the cause of every error about text that is not an amount.
var ErrAmount = errors.New("not an amount: want a plain number above zero, up to 15 digits before the point and 10 after it, 15 significant in all")

// The contexts of all arithmetic. Their methods do not change them, so they
// may be shared.
var (
	rateContext   = context(rateDigits)
	valueContext  = context(maxValueDigits)
	resultContext = context(resultDigits)
	exactContext  = context(exactDigits)
)

// context returns the arithmetic of the General Decimal Arithmetic
// specification at one precision, rounding half to even.
func context(precision uint32) *apd.Context {
	c := apd.BaseContext.WithPrecision(precision)
	c.Rounding = apd.RoundHalfEven
	return c
}

// Decimal is an exact decimal number that never changes. It prints in plain
// notation, without exponent, and as a JSON number. The zero Decimal is 0.
type Decimal struct {
	number apd.Decimal
}

// String returns the number in plain notation, such as "0.00804386661967".
func (d Decimal) String() string { return string(d.Append(nil)) }

// MarshalJSON writes the number as a JSON number in plain notation.
func (d Decimal) MarshalJSON() ([]byte, error) { return d.Append(nil), nil }

// Append appends the number in plain notation, without an allocation.
func (d Decimal) Append(to []byte) []byte {
	if !d.number.Coeff.IsUint64() {
		return d.number.Append(to, 'f') // an amount rounded to its minor unit may have more digits
	}
	var buffer [20]byte
	digits := strconv.AppendUint(buffer[:0], d.number.Coeff.Uint64(), 10)
	if d.number.Negative { // a change
		to = append(to, '-')
	}
	point := len(digits) + int(d.number.Exponent)
	if point <= 0 {
		return append(zeros(append(to, "0."...), -point), digits...)
	}
	if point < len(digits) {
		to = append(append(to, digits[:point]...), '.')
		return append(to, digits[point:]...)
	}
	return zeros(append(to, digits...), point-len(digits))
}

// zeros appends count zeros.
func zeros(to []byte, count int) []byte {
	for range count {
		to = append(to, '0')
	}
	return to
}

// trimmed drops trailing zeros: a rate is 1.1, not 1.10000.
func trimmed(number *apd.Decimal) Decimal {
	var d Decimal
	d.number.Reduce(number)
	return d
}

// ParseAmount reads an amount in plain notation: up to 15 digits before the
// point and up to 10 after it, without sign and exponent, above zero. At most
// 15 digits may follow from the first that is not zero. The result has no
// leading zeros and no trailing decimal zeros. Its error wraps ErrAmount.
func ParseAmount(s string) (Decimal, error) {
	whole, fraction, ok := splitPlain(s, amountIntegers, amountDecimals)
	if !ok {
		return Decimal{}, notAmount(s)
	}
	return amount(s, whole+fraction, -len(fraction))
}

// ParseAmountNumber reads an amount that is a JSON number, such as 1e2. The
// bounds are those of ParseAmount, for the number in plain notation. Its
// error wraps ErrAmount.
func ParseAmountNumber(s string) (Decimal, error) {
	mantissa, power := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var err error
		if power, err = strconv.Atoi(s[i+1:]); err != nil || power < -maxNumberLength || power > maxNumberLength {
			return Decimal{}, notAmount(s)
		}
		mantissa = s[:i]
	}
	whole, fraction, ok := splitPlain(mantissa, maxNumberLength, maxNumberLength)
	if !ok || len(s) > maxNumberLength {
		return Decimal{}, notAmount(s)
	}
	return amount(s, whole+fraction, power-len(fraction))
}

func notAmount(text string) error { return fmt.Errorf("%.40q: %w", text, ErrAmount) }

// splitPlain splits a number in plain notation at its point, and reports
// whether both parts are digits within their bounds.
func splitPlain(s string, integers, decimals int) (whole, fraction string, ok bool) {
	whole, fraction, point := strings.Cut(s, ".")
	return whole, fraction, digits(whole, integers) && (!point || digits(fraction, decimals))
}

// digits reports whether s is one to limit ASCII digits.
func digits(s string, limit int) bool {
	notDigit := func(r rune) bool { return r < '0' || r > '9' }
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, notDigit)
}

// amount makes the amount coefficient × 10^exponent, if it is in bounds.
func amount(text, coefficient string, exponent int) (Decimal, error) {
	coefficient = strings.TrimLeft(coefficient, "0")
	significant := len(coefficient)
	n, err := strconv.ParseInt(coefficient, 10, 64)
	if err != nil || significant > amountDigits || significant+exponent > amountIntegers || -exponent > amountDecimals {
		return Decimal{}, notAmount(text)
	}
	return trimmed(apd.New(n, int32(exponent))), nil
}

const (
	// rateDigits is the precision of a rate. It is more than any source
	// gives (the ECB up to 7, the indicative rates 12) and keeps a rate times its
	// inverse within 1e-11 of 1.
	rateDigits = 12
	// valueScale is 10^(maxValueDigits-1): what is not below it has all
	// the digits that a Value can have.
	valueScale = 1e17
	// mostTimes has at most 18 digits times any divisor.
	mostTimes = 10 * valueScale / (math.MaxUint16 + 1)
)

// quotient returns a/b to rateDigits significant digits, half to even.
//
// Both coefficients are brought to 18 digits, so that their ratio lies
// strictly between 1/10 and 10. Times 10^11 or 10^12, whichever fits, its
// whole part has exactly twelve digits, and the remainder of the one
// division decides exactly which way to round. The product has at most 30
// digits, which 128 bits hold. A table of rates is 150 divisions, and in
// arbitrary precision they took most of its time.
func quotient(a, b Value) Decimal {
	if a.divisor != b.divisor {
		if max(a.coefficient, b.coefficient) > mostTimes {
			return divided(rateContext, a, b)
		}
		a.coefficient, b.coefficient = a.coefficient*b.factor(), b.coefficient*a.factor()
	}
	x, exponent := scaled(a)
	y, less := scaled(b)
	exponent -= less

	multiplier := uint64(1e12)
	exponent -= rateDigits
	if x >= y {
		multiplier = 1e11
		exponent++
	}
	high, low := bits.Mul64(x, multiplier)
	digits, rest := bits.Div64(high, low, y)
	if up := y - rest; rest > up || rest == up && digits%2 == 1 {
		digits++
	}
	for digits%10 == 0 {
		digits /= 10
		exponent++
	}
	var rate Decimal
	rate.number.SetFinite(int64(digits), exponent)
	return rate
}

// divided returns a/b for values with any divisors and numbers of digits.
func divided(result *apd.Context, a, b Value) Decimal {
	var x, y, ratio apd.Decimal
	arithmetic := apd.MakeErrDecimal(exactContext)
	arithmetic.Mul(&x, apd.New(a.coefficient, int32(a.exponent)), apd.New(b.factor(), 0))
	arithmetic.Mul(&y, apd.New(b.coefficient, int32(b.exponent)), apd.New(a.factor(), 0))
	arithmetic.Ctx = result
	arithmetic.Quo(&ratio, &x, &y)
	if err := arithmetic.Err(); err != nil {
		panic(fmt.Errorf("dividing %s by %s: %w", &x, &y, err)) // impossible: both are above zero, and short
	}
	return trimmed(&ratio)
}

// factor returns the divisor as a number.
func (v Value) factor() int64 { return int64(max(v.divisor, 1)) }

// scaled returns a value as 18 digits and a power of ten.
func scaled(v Value) (digits uint64, exponent int32) {
	digits, exponent = uint64(v.coefficient), int32(v.exponent)
	for digits < valueScale {
		digits *= 10
		exponent--
	}
	return digits, exponent
}

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
