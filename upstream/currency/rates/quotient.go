package rates

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/cockroachdb/apd/v3"
)

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
