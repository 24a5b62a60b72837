package rates

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

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
