package api

import (
	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// currenciesInput is the request of GET /api/currencies. It has no
// parameters.
type currenciesInput struct{}

// currencyList is the answer to GET /api/currencies.
type currencyList struct {
	Date       civil.Date       `json:"date" format:"date" doc:"The newest day with rates."`
	Count      int              `json:"count" doc:"How many currencies are listed."`
	Currencies []currencyDetail `json:"currencies" nullable:"false" doc:"The currencies, sorted by code."`
}

// currencyDetail is one currency of the list.
type currencyDetail struct {
	Code      currency.Code `json:"code" pattern:"^[A-Z]{3}$" doc:"The alphabetic code of ISO 4217."`
	Name      string        `json:"name" doc:"The English name."`
	Numeric   string        `json:"numeric" pattern:"^[0-9]{3}$" doc:"The numeric code of ISO 4217."`
	MinorUnit *int          `json:"minor_unit" doc:"How many decimals an amount has by ISO 4217; null where ISO 4217 has none, as for gold."`
	Symbol    string        `json:"symbol" doc:"The symbol in English, or the code."`
	StartDate civil.Date    `json:"start_date" format:"date" doc:"The first day with a rate."`
	EndDate   civil.Date    `json:"end_date" format:"date" doc:"The last day with a rate."`
	Source    string        `json:"source" enum:"ECB,snapshot" doc:"Where the rate of the last day comes from: ECB or snapshot (indicative)."`
}

// listCurrencies answers GET /api/currencies with every active currency that
// has a rate. Retired currencies are omitted: a conversion without a date
// would be refused.
func (s *service) listCurrencies(*currenciesInput) (*currencyList, *apierror.Error) {
	m := s.moment()
	listings := m.data.Listings()
	list := &currencyList{Date: m.data.Newest(), Currencies: make([]currencyDetail, 0, len(listings))}
	for _, listing := range listings {
		known, found := currency.Lookup(listing.Code)
		if !found || known.RetiredOn(m.today) {
			continue
		}
		detail := currencyDetail{
			Code: known.Code, Name: known.Name, Numeric: known.Numeric, Symbol: known.Symbol,
			StartDate: listing.First, EndDate: listing.Last, Source: listing.Source.String(),
		}
		if known.MinorUnit != currency.NoMinorUnit {
			detail.MinorUnit = &known.MinorUnit
		}
		list.Currencies = append(list.Currencies, detail)
	}
	list.Count = len(list.Currencies)
	return list, nil
}
