package api_test

import (
	"net/http"
	"slices"
	"testing"
)

// TestCurrencies: what is listed can be converted, and what can be
// converted is listed.
func TestCurrencies(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var list struct {
		Date       string `json:"date"`
		Count      int    `json:"count"`
		Currencies []struct {
			Code      string `json:"code"`
			Name      string `json:"name"`
			Numeric   string `json:"numeric"`
			MinorUnit *int   `json:"minor_unit"`
			Symbol    string `json:"symbol"`
			StartDate string `json:"start_date"`
			EndDate   string `json:"end_date"`
			Source    string `json:"source"`
		} `json:"currencies"`
	}
	s.get(t, "/api/currencies").decode(t, &list)
	var codes []string
	for _, c := range list.Currencies {
		codes = append(codes, c.Code)
	}
	if want := []string{"AED", "EUR", "GBP", "JPY", "KWD", "USD", "VND", "XAU"}; !slices.Equal(codes, want) || list.Count != len(want) {
		t.Errorf("got %d: %v, want %v", list.Count, codes, want)
	}
	if list.Date != "2026-09-25" {
		t.Errorf("date = %s, want 2026-09-25", list.Date)
	}
	for _, known := range embedded(t, "../table.csv") {
		listed := slices.Contains(codes, known[0])
		a := s.get(t, "/api/convert/"+known[0]+"/1/EUR")
		if (a.status == http.StatusOK) != listed {
			t.Errorf("%s is listed: %v, but converting it gives %d", known[0], listed, a.status)
		}
	}
	if dinar := list.Currencies[4]; dinar.MinorUnit == nil || *dinar.MinorUnit != 3 || dinar.Numeric != "414" ||
		dinar.StartDate != "2026-09-22" || dinar.EndDate != "2026-09-25" || dinar.Source != "indicative" || dinar.Symbol == "" || dinar.Name == "" {
		t.Errorf("got %+v for the Kuwaiti dinar", dinar)
	}
	if gold := list.Currencies[7]; gold.MinorUnit != nil {
		t.Errorf("gold has %d decimals, want null", *gold.MinorUnit)
	}
}
