package rates

import "math/bits"

const (
	// rateDigits is the precision of a rate. It is more than any source
	// gives (the ECB up to 7, the snapshot 12) and keeps a rate times its
	// inverse within 1e-11 of 1.
	rateDigits = 12
	// valueScale is 10^(maxValueDigits-1): what is not below it has all
	// the digits that a Value can have.
	valueScale = 1e17
)

// quotient returns a/b to rateDigits significant digits, half to even.
//
// Both coefficients are brought to 18 digits, so that their ratio lies
// strictly between 1/10 and 10. Times 10^11 or 10^12, whichever fits, its
// whole part has exactly twelve digits, and the remainder of the one
// division decides exactly which way to round. The product has at most 30
// digits, which 128 bits hold. A table of
// rates is 150 divisions, and in arbitrary precision they took most of its
// time.
func quotient(a, b Value) Decimal {
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

// scaled returns a value as 18 digits and a power of ten.
func scaled(v Value) (digits uint64, exponent int32) {
	digits, exponent = uint64(v.coefficient), int32(v.exponent)
	for digits < valueScale {
		digits *= 10
		exponent--
	}
	return digits, exponent
}
