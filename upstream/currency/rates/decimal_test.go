package rates_test

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

func TestParseAmount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1": "1", "10": "10", "100": "100", "0.5": "0.5", "007.50": "7.5", "12.3400": "12.34",
		"999999999999999": "999999999999999", "100000000000000": "100000000000000",
		"0.0000000001": "0.0000000001", "12345.0123456789": "12345.0123456789",
	} {
		got, err := rates.ParseAmount(text)
		if err != nil || got.String() != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestParseAmountRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "-1", "+1", "0.00", "1E3", ".5", "5.", "1,5", "0x10", "NaN", "١٢",
		"1234567890123456", "0.12345678901", "123456.0123456789", "1.2.3", "1 ", strings.Repeat("9", 10_000),
	} {
		if got, err := rates.ParseAmount(text); !errors.Is(err, rates.ErrAmount) {
			t.Errorf("%.20q: got %s, %v, want ErrAmount", text, got, err)
		}
	}
	_, err := rates.ParseAmount(strings.Repeat("9", 10_000))
	if len(err.Error()) > 250 {
		t.Errorf("the error repeats %d bytes of what it refuses", len(err.Error()))
	}
}

func TestParseValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1.0869": "1.0869", "185": "185", "10.8920": "10.892", "0.00000060": "0.0000006", "100": "100",
		"53373.1415926535": "53373.1415926535", "0001.5": "1.5",
	} {
		got, err := rates.ParseValue(text)
		if err != nil || got.String() != want || got.IsZero() {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "0", "0.0", "-1", "+1", "1e5", "N/A", "NaN", "Inf", "1.", ".1", "1,5", "1234567890123456789", " 1",
	} {
		if got, err := rates.ParseValue(text); !errors.Is(err, rates.ErrValue) {
			t.Errorf("%q: got %s, %v, want ErrValue", text, got, err)
		}
	}
}

func TestJumps(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, to string
		want     bool
	}{
		{"1", "1.5", false}, {"1", "1.5000000001", true}, {"1.5", "1", false}, {"1.5000000001", "1", true},
		{"1", "1", false}, {"0.0000003", "300000", true}, {"999999999999999999", "0.00000000000000001", true},
	}
	for _, test := range tests {
		from, to := value(t, test.from), value(t, test.to)
		if got := from.Jumps(to); got != test.want {
			t.Errorf("%s to %s: got %v, want %v", from, to, got, test.want)
		}
	}
}

func value(t interface {
	Helper()
	Fatal(...any)
}, text string) rates.Value {
	t.Helper()
	v, err := rates.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var amountPattern = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,10})?$`)

// Whatever is taken has the form, and means the number written.
func FuzzParseAmount(f *testing.F) {
	for _, seed := range []string{"1", "0.5", "1e3", "123456.0123456789", "00.10"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := rates.ParseAmount(text)
		if err != nil {
			return
		}
		if !amountPattern.MatchString(text) {
			t.Fatalf("%q was taken", text)
		}
		sameNumber(t, text, got.String())
	})
}

func FuzzParseAmountNumber(f *testing.F) {
	for _, seed := range []string{"1", "1e-7", "1E+2", "12.5e1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := rates.ParseAmountNumber(text); err == nil {
			sameNumber(t, text, got.String())
		}
	})
}

func FuzzParseValue(f *testing.F) {
	f.Add("1.08690")
	f.Add("0.000000000000000001")
	f.Add("9227000000000000000") // more than fits into an int64
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := rates.ParseValue(text); err == nil {
			sameNumber(t, text, got.String())
		}
	})
}

func sameNumber(t *testing.T, text, printed string) {
	t.Helper()
	want, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	got, ok := new(big.Rat).SetString(printed)
	if !ok || got.Cmp(want) != 0 || strings.ContainsAny(printed, "eE+-") {
		t.Fatalf("%q was read as %s", text, printed)
	}
}
