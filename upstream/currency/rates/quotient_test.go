package rates_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"pgregory.net/rapid"
)

// expected divides in the arithmetic of the General Decimal Arithmetic
// specification, which shares nothing with what it is to judge.
func expected(t fataler, a, b string) string {
	t.Helper()
	dividend, _, err := apd.NewFromString(a)
	if err != nil {
		t.Fatal(err)
	}
	divisor, _, err := apd.NewFromString(b)
	if err != nil {
		t.Fatal(err)
	}
	context := apd.BaseContext.WithPrecision(12)
	context.Rounding = apd.RoundHalfEven
	var rate apd.Decimal
	if _, err := context.Quo(&rate, dividend, divisor); err != nil {
		t.Fatal(err)
	}
	rate.Reduce(&rate)
	return rate.Text('f')
}

type fataler interface {
	Helper()
	Fatal(...any)
}

// rate returns the rate from the currency of value a to that of value b.
func rate(t fataler, b, a string) string {
	t.Helper()
	day := newest(t, build(t, "2026-04-13 USD "+a+" ECB", "2026-04-13 GBP "+b+" ECB"))
	got, err := day.Rate("USD", "GBP")
	if err != nil {
		t.Fatal(err)
	}
	return got.String()
}

func TestQuotient(t *testing.T) {
	t.Parallel()
	const nines, least = "999999999999999999", "0.0000000000000000000000000000000000000000000000000000000000000001"
	for _, test := range []struct{ a, b, want string }{
		{"1", "3", "0.333333333333"},
		{"2", "3", "0.666666666667"},
		{"1", "1", "1"},
		{"1000000000001", "2", "500000000000"}, // 500000000000.5: to even, down
		{"1000000000003", "2", "500000000002"}, // 500000000001.5: to even, up
		{"100000000000.5", "1", "100000000000"},
		{"100000000001.5", "1", "100000000002"},
		{"100000000000.50001", "1", "100000000001"},
		{"999999999999.5", "1", "1000000000000"}, // carries into a 13th digit
		{"0.9999999999995", "1", "1"},
		{nines, nines, "1"},
		{nines, "1", "1000000000000000000"},
		{"1", nines, "0.000000000000000001"},
		{"100000000000000000", nines, "0.1"},
		{nines, "100000000000000000", "10"},
		{least, nines, ""},
		{nines, least, ""},
	} {
		want := expected(t, test.a, test.b)
		if got := rate(t, test.a, test.b); got != want || test.want != "" && got != test.want {
			t.Errorf("%s / %s: got %s, want %s", test.a, test.b, got, want)
		}
	}
}

// anyValue draws values of every length and size.
var anyValue = rapid.Custom(func(t *rapid.T) string {
	digits := rapid.StringMatching(`[1-9][0-9]{0,17}`).Draw(t, "digits")
	point := rapid.IntRange(-20, len(digits)).Draw(t, "point")
	switch {
	case point == len(digits):
		return digits
	case point > 0:
		return digits[:point] + "." + digits[point:]
	}
	return "0." + strings.Repeat("0", -point) + digits
})

// A division is exact to the last digit, whatever the values are.
func TestQuotientIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyValue.Draw(t, "a"), anyValue.Draw(t, "b")
		if got, want := rate(t, a, b), expected(t, a, b); got != want {
			t.Fatalf("%s / %s: got %s, want %s", a, b, got, want)
		}
	})
}

// Quotients that lie halfway between two rates, and next to halfway, are
// where rounding goes wrong. Random values hardly ever meet one.
func TestQuotientRoundsHalfToEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quotient := rapid.Uint64Range(100_000_000_000, 999_999_999_999).Draw(t, "quotient")
		divisor := rapid.Uint64Range(1, 99_999).Draw(t, "divisor")
		halfway := (quotient*10 + 5) * divisor // at most 18 digits
		nudge := rapid.SampledFrom([]uint64{0, 1, ^uint64(0)}).Draw(t, "nudge")
		a, b := strconv.FormatUint(halfway+nudge, 10), strconv.FormatUint(divisor, 10)
		if got, want := rate(t, a, b), expected(t, a, b); got != want {
			t.Fatalf("%s / %s: got %s, want %s", a, b, got, want)
		}
	})
}
