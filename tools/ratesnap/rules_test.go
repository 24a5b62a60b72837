package main

import (
	"path/filepath"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// The bank's dollar of Friday 2026-04-10 was 1.1711, that of Monday the last
// of the file: 1.1684.
func TestFault(t *testing.T) {
	t.Parallel()
	bank, _, err := readBank(filepath.Join(embedded, bankFile))
	if err != nil {
		t.Fatal(err)
	}
	friday := civil.New(2026, 4, 10)
	tests := []struct {
		name, want string
		date       civil.Date
		values     map[currency.Code]string
	}{
		{"as the bank", "", friday, map[currency.Code]string{"USD": "1.1711"}},
		{"at the bound", "", friday, map[currency.Code]string{"USD": "1.1828"}},
		{"over the bound", "1.01 % from the ECB's values", friday, map[currency.Code]string{"USD": "1.1829"}},
		{"below it", "1.01 % from the ECB's values", friday, map[currency.Code]string{"USD": "1.1593"}},
		{"one of three", "", friday, map[currency.Code]string{"USD": "1.5", "GBP": "0.87105", "JPY": "186.43"}},
		{"on Sunday", "1.01 % from the ECB's values", friday + 2, map[currency.Code]string{"USD": "1.1829"}},
		{"four days after the last", "1.01 % from the ECB's values", friday + 7, map[currency.Code]string{"USD": "1.1802"}},
		{"five days after it", "", friday + 8, map[currency.Code]string{"USD": "1.1802"}},
		{"parities", "", friday + 8, map[currency.Code]string{"USD": "1.2", "AED": "4.407", "SAR": "4.5", "XOF": "655.957"}},
		{"parities at the bound", "", friday + 8, map[currency.Code]string{"USD": "1.2", "AED": "4.429"}},
		{"parities over the bound", "0.51 % from the parities", friday + 8, map[currency.Code]string{"USD": "1.2", "AED": "4.4295"}},
		{"one parity of three", "", friday + 8, map[currency.Code]string{"USD": "1.2", "AED": "4.407", "SAR": "5", "XOF": "655.957"}},
		{"a parity without its base", "", friday + 8, map[currency.Code]string{"AED": "9"}},
		{"nothing to compare", "", friday, map[currency.Code]string{"KES": "151"}},
	}
	for _, test := range tests {
		if got := fault(day{release: release{date: test.date}, values: test.values}, bank); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
