package rates

import (
	"errors"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// A table is read in the order of the bank and in that of a calendar.
func TestReadTable(t *testing.T) {
	t.Parallel()
	for _, table := range []string{
		"Date,USD,GBP,\n2026-01-02,1.2,N/A,\n2026-01-01,1.1,0.9,\n",
		"date,GBP,USD\r\n2026-01-01,0.9,1.1\r\n2026-01-02,,1.2\r\n",
	} {
		data, err := ReadTable(table, SourceECB)
		if err != nil {
			t.Fatal(err)
		}
		if data.Days() != 2 || data.First() != civil.New(2026, 1, 1) {
			t.Errorf("got %d days from %s", data.Days(), data.First())
		}
		day, err := data.Latest("GBP", "USD")
		if err != nil {
			t.Fatal(err)
		}
		for code, want := range map[currency.Code]string{"GBP": "0.9", "USD": "1.1"} {
			if rate, err := day.Rate("EUR", code); err != nil || rate.String() != want {
				t.Errorf("%s: got %s, %v, want %s", code, rate, err, want)
			}
		}
	}
}

func TestTableRefused(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{
		"no code":       "date,US\n2026-01-01,1\n",
		"no date":       "date,USD\n2026-1-1,1\n",
		"no number":     "date,USD\n2026-01-01,x\n",
		"a zero":        "date,USD\n2026-01-01,0\n",
		"too few":       "date,USD,GBP\n2026-01-01,1\n",
		"too many":      "date,USD\n2026-01-01,1,2\n",
		"an empty line": "date,USD\n\n",
		"no currency":   "date,USD,\n2026-01-01,1,2\n",
		"a day twice":   "date,USD\n2026-01-01,1\n2026-01-02,1\n2026-01-01,1\n",
	} {
		if _, err := ReadTable(table, SourceIndicative); !errors.Is(err, errTable) {
			t.Errorf("%s: got %v, want errTable", name, err)
		}
	}
}

func TestIndicative(t *testing.T) {
	t.Parallel()
	data, err := Indicative()
	if err != nil {
		t.Fatal(err)
	}
	if data.Days() < 200 || data.Newest() < civil.New(2026, 9, 29) {
		t.Errorf("got %d days up to %s", data.Days(), data.Newest())
	}
	for _, l := range data.Listings() {
		known, found := currency.Lookup(l.Code)
		if !found || !known.ActiveOn(l.First) || !known.ActiveOn(l.Last) || l.Source != SourceIndicative {
			t.Errorf("%s from %s to %s does not belong there", l.Code, l.First, l.Last)
		}
	}
	day, err := data.Latest()
	if err != nil {
		t.Fatal(err)
	}
	if table, err := day.Rates(currency.Euro); err != nil || len(table) < 120 {
		t.Errorf("got %d currencies on %s, %v", len(table), day.Date(), err)
	}
	// Spot checks against the release of the day.
	for code, want := range map[currency.Code]string{"USD": "1.13607202", "KES": "147.31979317", "EUR": "1"} {
		if rate, err := day.Rate(currency.Euro, code); err != nil || rate.String() != want {
			t.Errorf("%s: got %s, %v, want %s", code, rate, err, want)
		}
	}
	for _, code := range []currency.Code{"SYP", "HRK", "DEM", "BTC", "AED", "XCG"} {
		if data.Quotes(code) {
			t.Errorf("%s is quoted", code)
		}
	}
}
