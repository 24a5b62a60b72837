package rates_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// newest returns the last day of a dataset.
func newest(t interface {
	Helper()
	Fatal(...any)
}, data *rates.Dataset) rates.Day {
	t.Helper()
	day, err := data.Latest()
	if err != nil {
		t.Fatal(err)
	}
	return day
}

func TestConvert(t *testing.T) {
	t.Parallel()
	day := newest(t, build(t,
		"2026-04-13 USD 1.1698 ECB", "2026-04-13 JPY 186.5 ECB", "2026-04-13 KWD 0.36 ECB", "2026-04-13 GBP 0.5 ECB",
		"2026-04-13 XAU 0.0003 ECB", "2026-04-13 IRR 1163416.0325 ECB", "2026-04-13 VND 8 ECB",
	))
	tests := []struct {
		amount, from, to      string
		rate, result, rounded string
	}{
		{"100", "EUR", "USD", "1.1698", "116.98", "116.98"},
		{"10", "EUR", "EUR", "1", "10", "10.00"},
		{"1", "USD", "EUR", "0.854846982390", "0.85484698239", "0.85"},
		{"3", "EUR", "JPY", "186.5", "559.5", "560"}, // half to even: up
		{"1", "EUR", "JPY", "186.5", "186.5", "186"}, // half to even: down
		{"2.5", "JPY", "JPY", "1", "2.5", "2"},
		{"0.25", "EUR", "GBP", "0.5", "0.125", "0.12"},
		{"0.0125", "EUR", "KWD", "0.36", "0.0045", "0.004"},
		{"1", "EUR", "XAU", "0.0003", "0.0003", "0.0003"}, // no minor unit
		{"0.0000000001", "EUR", "USD", "1.1698", "0.00000000011698", "0.00"},
		// The rounded amount is the exact product, not the rounded result.
		{"123456789012345", "EUR", "IRR", "1163416.0325", "143631607657932000000", "143631607657932013421.21"},
		{"999999999999999", "XAU", "IRR", "3878053441.67", "3878053441670000000000000", "3878053441669996121946558.33"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s %s to %s", test.amount, test.from, test.to), func(t *testing.T) {
			t.Parallel()
			amount, err := rates.ParseAmount(test.amount)
			if err != nil {
				t.Fatal(err)
			}
			got, err := day.Convert(currency.Code(test.from), currency.Code(test.to), amount)
			if err != nil {
				t.Fatal(err)
			}
			want := trimZeros(test.rate)
			if got.Rate.String() != want || got.Result.String() != test.result || got.Rounded.String() != test.rounded {
				t.Errorf("got %s, %s, %s, want %s, %s, %s", got.Rate, got.Result, got.Rounded, want, test.result, test.rounded)
			}
			if got := day.Source(currency.Code(test.from), currency.Code(test.to)); got != rates.SourceECB {
				t.Errorf("got a rate of %s", got)
			}
		})
	}
	if _, err := day.Convert("EUR", "KES", rates.Decimal{}); !errors.Is(err, rates.ErrNoRate) {
		t.Errorf("got %v, want ErrNoRate", err)
	}
}

func trimZeros(text string) string {
	d, _, err := apd.NewFromString(text)
	if err != nil {
		return text
	}
	d.Reduce(d)
	return d.Text('f')
}

func TestRates(t *testing.T) {
	t.Parallel()
	day := newest(t, build(t, "2026-04-13 USD 1.25 ECB", "2026-04-13 JPY 200 ECB", "2026-04-13 GBP 0.8 ECB"))
	tests := []struct {
		base    currency.Code
		symbols []currency.Code
		want    string
	}{
		{"EUR", nil, "[{EUR 1} {GBP 0.8} {JPY 200} {USD 1.25}]"},
		{"USD", nil, "[{EUR 0.8} {GBP 0.64} {JPY 160} {USD 1}]"},
		{"USD", []currency.Code{"JPY", "GBP"}, "[{JPY 160} {GBP 0.64}]"},
	}
	for _, test := range tests {
		got, err := day.Rates(test.base, test.symbols...)
		if err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("%s %v: got %v, %v, want %s", test.base, test.symbols, got, err, test.want)
		}
	}
	for _, pair := range [][2]currency.Code{{"KES", "USD"}, {"USD", "KES"}} {
		if _, err := day.Rates(pair[0], pair[1]); !errors.Is(err, rates.ErrNoRate) {
			t.Errorf("%v: got %v, want ErrNoRate", pair, err)
		}
		if _, err := day.Rate(pair[0], pair[1]); !errors.Is(err, rates.ErrNoRate) {
			t.Errorf("%v: got %v, want ErrNoRate", pair, err)
		}
	}
}

func product(t *rapid.T, factors ...rates.Decimal) *apd.Decimal {
	t.Helper()
	result := apd.New(1, 0)
	for _, factor := range factors {
		if _, err := apd.BaseContext.WithPrecision(60).Mul(result, result, number(t, factor)); err != nil {
			t.Fatal(err)
		}
	}
	return result
}

func number(t *rapid.T, d rates.Decimal) *apd.Decimal {
	t.Helper()
	n, _, err := apd.NewFromString(d.String())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// On the real snapshot: a line of the table is the rate of a conversion, and
// every number can be recomputed from the printed ones.
func TestRatesAreConsistent(t *testing.T) {
	t.Parallel()
	data, err := rates.Indicative()
	if err != nil {
		t.Fatal(err)
	}
	first := data.Listings()[0].First
	rapid.Check(t, func(t *rapid.T) {
		on := civil.Date(rapid.Int32Range(int32(first), int32(data.Newest())).Draw(t, "on"))
		day, err := data.At(on)
		if errors.Is(err, rates.ErrNoRate) {
			t.Skip("a hole of more than 14 days")
		}
		if err != nil {
			t.Fatal(err)
		}
		codes := rapid.SampledFrom(codesOf(t, day))
		a, b := codes.Draw(t, "a"), codes.Draw(t, "b")
		rate, err := day.Rate(a, b)
		if err != nil {
			t.Fatal(err)
		}
		line, err := day.Rates(a, b)
		if err != nil || len(line) != 1 || line[0].Rate.String() != rate.String() {
			t.Fatalf("got %v, %v, want %s", line, err, rate)
		}
		recompute(t, day, a, b)
	})
}

// recompute converts a random amount and does the sums again.
func recompute(t *rapid.T, day rates.Day, from, to currency.Code) {
	t.Helper()
	text := rapid.StringMatching(`[1-9][0-9]{0,8}(\.[0-9]{1,6})?`).Draw(t, "amount")
	amount, err := rates.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := day.Convert(from, to, amount)
	if err != nil {
		t.Fatal(err)
	}
	exact := product(t, amount, got.Rate)
	halfEven := apd.BaseContext.WithPrecision(15)
	halfEven.Rounding = apd.RoundHalfEven
	var result, rounded apd.Decimal
	if _, err := halfEven.Round(&result, exact); err != nil {
		t.Fatal(err)
	}
	if result.Cmp(number(t, got.Result)) != 0 {
		t.Fatalf("%s × %s: got %s, want %s", text, got.Rate, got.Result, result.Text('f'))
	}
	known, _ := currency.Lookup(to)
	if known.MinorUnit == currency.NoMinorUnit {
		return
	}
	wide := halfEven.WithPrecision(60)
	if _, err := wide.Quantize(&rounded, exact, int32(-known.MinorUnit)); err != nil {
		t.Fatal(err)
	}
	if rounded.Text('f') != got.Rounded.String() {
		t.Fatalf("%s × %s: got %s, want %s", text, got.Rate, got.Rounded, rounded.Text('f'))
	}
}
