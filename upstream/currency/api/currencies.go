package api

import (
	"strconv"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
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
	Source    string        `json:"source" enum:"ECB,parity,indicative" doc:"The source of its last rate. A currency is of the ECB as long as the bank publishes it, or else of a parity, or else indicative."`
	Parity    *parity       `json:"parity,omitzero" doc:"With the source parity: the parity of the last day with a rate."`
}

// parity is the fixed rate of a currency.
type parity struct {
	Base      currency.Code `json:"base" pattern:"^[A-Z]{3}$" doc:"The currency that the rate is fixed to."`
	Rate      number        `json:"rate" doc:"How many units of the currency one unit of base buys, to 12 significant digits."`
	Since     civil.Date    `json:"since" format:"date" doc:"The first day of the parity."`
	Authority string        `json:"authority" doc:"The authority that says so."`
	URL       string        `json:"url" format:"uri" doc:"Where it says so."`
}

// table returns the currencies as rows.
func (l *currencyList) table() *table {
	columns := []string{
		"code", "name", "numeric", "minor_unit", "symbol", "start_date", "end_date", "source",
		"parity_base", "parity_rate", "parity_since", "parity_authority", "parity_url",
	}
	return &table{columns, func(yield func(row) bool) {
		for i := range l.Currencies {
			if !yield(&l.Currencies[i]) {
				return
			}
		}
	}}
}

func (d *currencyDetail) addTo(line *csvLine) {
	line.text(string(d.Code))
	line.text(d.Name)
	line.text(d.Numeric)
	if d.MinorUnit != nil {
		line.text(strconv.Itoa(*d.MinorUnit))
	} else {
		line.text("")
	}
	line.text(d.Symbol)
	line.date(d.StartDate)
	line.date(d.EndDate)
	line.text(d.Source)
	if d.Parity == nil {
		for range 5 {
			line.text("")
		}
		return
	}
	line.text(string(d.Parity.Base))
	line.number(d.Parity.Rate)
	line.date(d.Parity.Since)
	line.text(d.Parity.Authority)
	line.text(d.Parity.URL)
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
		if p, holds := rates.ParityOn(known.Code, listing.Last); holds && listing.Source == rates.SourceParity {
			detail.Parity = &parity{p.Base, number{p.Rate()}, p.Since, p.Authority, p.URL}
		}
		list.Currencies = append(list.Currencies, detail)
	}
	list.Count = len(list.Currencies)
	return list, nil
}
