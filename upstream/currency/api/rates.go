package api

import (
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// ratesInput is the request of GET /api/rates/{base}.
type ratesInput struct {
	Base    string `path:"base" pattern:"^[A-Za-z]{3}$" example:"EUR" doc:"The base: the rates are for one unit of it."`
	Date    string `query:"date" format:"date" example:"2026-03-27" doc:"The day of the rates. Default: the newest publication of the ECB, or the newest day before it that has base. For a day without rates, the newest day before it is used, at most 14 days back."`
	Symbols string `query:"symbols" pattern:"^ *[A-Za-z]{3} *(, *[A-Za-z]{3} *)*$" example:"USD,GBP" doc:"The currencies to list beside base, separated by commas. Default: all of the day. With symbols, the day is the newest that has all of them, and a new rate of one."`
	Source  string `query:"source" default:"ECB,parity,indicative" doc:"The sources to use, separated by commas. Others are left out. A parity with a base of the ECB needs both."`
}

// rateList is the answer to GET /api/rates/{base}.
type rateList struct {
	Base   currency.Code `json:"base" pattern:"^[A-Z]{3}$" doc:"The base: the rates are for one unit of it."`
	Date   civil.Date    `json:"date" format:"date" doc:"The day of the rates."`
	Source sources       `json:"source" doc:"The sources of the rates, the best first, joined by +."`
	Rates  rateTable     `json:"rates" doc:"How many units of each currency one unit of base buys, to 12 significant digits, sorted by code. The base itself is included, as 1."`

	day rates.Day
}

// rateLine is a rate of the list as a row.
type rateLine struct {
	Date   civil.Date    `json:"date"`
	Base   currency.Code `json:"base"`
	Code   currency.Code `json:"code"`
	Rate   number        `json:"rate"`
	Source sources       `json:"source"`
}

// table returns the rates as rows, each with its source. The row of base has the
// source that a conversion of base to itself has.
func (l *rateList) table() *table {
	return &table{[]string{"date", "base", "code", "rate", "source"}, func(yield func(row) bool) {
		for _, quote := range l.Rates {
			source := sources(l.day.Source(l.Base, quote.Code).String())
			if !yield(&rateLine{l.Date, l.Base, quote.Code, number{quote.Rate}, source}) {
				return
			}
		}
	}}
}

func (r *rateLine) addTo(line *csvLine) {
	line.date(r.Date)
	line.text(string(r.Base))
	line.text(string(r.Code))
	line.number(r.Rate)
	line.text(string(r.Source))
}

// listRates answers GET /api/rates/{base}.
func (s *service) listRates(in *ratesInput) (*rateList, *apierror.Error) {
	base, err := currency.Parse(in.Base)
	if err != nil {
		return nil, invalidCurrency(in.Base)
	}
	symbols, refusal := parseSymbols(in.Symbols, base)
	if refusal != nil {
		return nil, refusal
	}
	m, refusal := s.momentFrom(in.Source)
	if refusal != nil {
		return nil, refusal
	}
	on, refusal := m.rateDate(in.Date)
	if refusal != nil {
		return nil, refusal
	}
	asked := symbols
	if len(asked) == 0 {
		asked, m.data = []currency.Code{base}, m.data.Whole()
	}
	day, refusal := m.day(on, asked...)
	if refusal != nil {
		return nil, refusal
	}
	table, err := day.Rates(base, symbols...)
	must(err)
	return &rateList{Base: base, Date: day.Date(), Source: sources(day.Source(symbols...).String()), Rates: table, day: day}, nil
}

// parseSymbols reads a comma-separated list of codes, with or without spaces
// around the commas, and returns them and base, sorted, without duplicates: the
// search for a day takes time for each. An empty text means every currency.
func parseSymbols(text string, base currency.Code) ([]currency.Code, *apierror.Error) {
	if text == "" {
		return nil, nil
	}
	codes := []currency.Code{base}
	for name := range strings.SplitSeq(text, ",") {
		code, err := currency.Parse(strings.Trim(name, " "))
		if err != nil {
			return nil, invalidCurrency(name)
		}
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return slices.Compact(codes), nil
}
