package api

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

// TestConversionJSON compares the JSON of a conversion with that of the
// marshaller.
func TestConversionJSON(t *testing.T) {
	t.Parallel()
	data, err := rates.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, source := range []rates.Source{rates.SourceECB, rates.SourceSnapshot, rates.SourceECB | rates.SourceSnapshot} {
		m := moment{data, data.Newest()}
		for _, listing := range data.Listings() {
			for _, amount := range []string{"0.0000000001", "1", "12.5", "999999999999999"} {
				c, refusal := m.convert(&convertInput{From: "EUR", Amount: amount, To: string(listing.Code)}, readAmount)
				if refusal != nil {
					continue // a retired currency
				}
				c.Source = source.String()
				want, err := json.Marshal(c)
				if got := c.appendJSON(nil); err != nil || string(got) != string(want) {
					t.Fatalf("got %s, want %s (%v)", got, want, err)
				}
				compared++
			}
		}
	}
	if compared < 1000 {
		t.Errorf("compared %d conversions, want 1000", compared)
	}
}
