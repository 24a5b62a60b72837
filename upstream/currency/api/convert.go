package api

import (
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// amountPattern matches an amount in plain notation.
const amountPattern = `^[0-9]{1,15}(\.[0-9]{1,10})?$`

// convertInput is the request of GET /api/convert/{from}/{amount}/{to}.
type convertInput struct {
	From   string `path:"from" pattern:"^[A-Za-z]{3}$" example:"EUR" doc:"The currency that the amount is in."`
	Amount string `path:"amount" pattern:"^[0-9]{1,15}(\\.[0-9]{1,10})?$" example:"100" doc:"The amount: above zero, at most 15 significant digits."`
	To     string `path:"to" pattern:"^[A-Za-z]{3}$" example:"USD" doc:"The currency to convert to."`
	Date   string `query:"date" format:"date" example:"2026-03-27" doc:"The day of the rate. Default: the newest day with a rate. For a day without rates, the newest day before it is used, at most 14 days back."`
	Source string `query:"source" default:"ECB,parity,indicative" doc:"The sources to use, separated by commas. Others are left out. A parity with a base of the ECB needs both."`
}

// Conversion is the answer to a conversion. It is exported because reflection
// ignores embedded structs with a private name.
type Conversion struct {
	From    currency.Code `json:"from" pattern:"^[A-Z]{3}$" doc:"The currency that was converted from."`
	To      currency.Code `json:"to" pattern:"^[A-Z]{3}$" doc:"The currency that was converted to."`
	Amount  number        `json:"amount" doc:"The amount that was converted."`
	Rate    number        `json:"rate" doc:"How many units of to one unit of from buys, to 12 significant digits, rounded half-even."`
	Result  number        `json:"result" doc:"amount × rate to 15 significant digits, rounded half-even."`
	Rounded number        `json:"rounded" doc:"amount × rate, rounded half-even to the minor unit of to. For currencies without a minor unit, such as gold, it is result."`
	Date    civil.Date    `json:"date" format:"date" doc:"The day that the rate is for."`
	Source  sources       `json:"source" doc:"The sources of the rate, the best first, joined by +."`
}

// convert answers GET /api/convert/{from}/{amount}/{to}.
func (s *service) convert(in *convertInput) (*Conversion, *apierror.Error) {
	m, refusal := s.momentFrom(in.Source)
	if refusal != nil {
		return nil, refusal
	}
	return m.convert(in, readAmount)
}

// convert makes one conversion, alone or of a batch; they differ in how the
// amount is read. It checks the syntax of all parts first.
func (m moment) convert(in *convertInput, read func(string) (rates.Decimal, *apierror.Error)) (*Conversion, *apierror.Error) {
	from, err := currency.Parse(in.From)
	if err != nil {
		return nil, invalidCurrency(in.From)
	}
	amount, refusal := read(in.Amount)
	if refusal != nil {
		return nil, refusal
	}
	to, err := currency.Parse(in.To)
	if err != nil {
		return nil, invalidCurrency(in.To)
	}
	on, refusal := m.rateDate(in.Date)
	if refusal != nil {
		return nil, refusal
	}
	day, refusal := m.day(on, from, to)
	if refusal != nil {
		return nil, refusal
	}
	c, err := day.Convert(from, to, amount)
	must(err)
	return &Conversion{
		From: from, To: to,
		Amount: number{amount}, Rate: number{c.Rate}, Result: number{c.Result}, Rounded: number{c.Rounded},
		Date: day.Date(), Source: sources(day.Source(from, to).String()),
	}, nil
}

// readAmount reads an amount in plain notation.
func readAmount(text string) (rates.Decimal, *apierror.Error) {
	amount, err := rates.ParseAmount(text)
	if err != nil {
		return amount, invalidAmount(text)
	}
	return amount, nil
}
