package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// moment is the data of one request: one dataset and today's date in UTC.
// All parts of an answer use it, so a concurrent refresh cannot make them
// contradict each other.
type moment struct {
	data    *rates.Dataset
	sources rates.Source
	today   civil.Date
}

func (s *service) moment() moment {
	return moment{s.source.Current(), rates.AllSources, civil.Of(s.now().UTC())}
}

// momentFrom returns the moment with only the values of some sources.
func (s *service) momentFrom(text string) (moment, *apierror.Error) {
	m := s.moment()
	var refusal *apierror.Error
	if m.sources, refusal = parseSources(text); refusal == nil {
		m.data = m.data.From(m.sources)
	}
	return m, refusal
}

// date reads a date of the request. An empty text is the zero Date. A date in
// the future is refused.
func (m moment) date(text string) (civil.Date, *apierror.Error) {
	if text == "" {
		return 0, nil
	}
	day, err := civil.Parse(text)
	if err != nil {
		return 0, invalidDate(text)
	}
	if day > m.today {
		return 0, futureDate(day, m.today)
	}
	return day, nil
}

// rateDate reads the date of a rate. It refuses days before the first one that
// this server has.
func (m moment) rateDate(text string) (civil.Date, *apierror.Error) {
	day, refusal := m.date(text)
	if first := m.data.First(); refusal == nil && !day.IsZero() && day < first {
		refusal = apierror.New(http.StatusNotFound, codeNoRate, fmt.Sprintf("There are no rates before %s.", first))
	}
	return day, refusal
}

// known refuses currencies that are unknown or retired on a day. The zero
// Date means today.
func (m moment) known(on civil.Date, codes ...currency.Code) *apierror.Error {
	if on.IsZero() {
		on = m.today
	}
	for _, code := range codes {
		known, found := currency.Lookup(code)
		quoted := found && m.data.Quotes(code)
		switch {
		case found && (known.RetiredOn(on) || !quoted && !known.End.IsZero()):
			return currencyRetired(known)
		case !quoted:
			return unknownCurrency(code)
		}
	}
	return nil
}

// day returns the newest day with rates of all the currencies, which must be
// known: at or before on, at most rates.LookBack days back, or any day if on is
// zero.
func (m moment) day(on civil.Date, codes ...currency.Code) (rates.Day, *apierror.Error) {
	if refusal := m.known(on, codes...); refusal != nil {
		return rates.Day{}, refusal
	}
	if on.IsZero() {
		day, err := m.data.Latest(codes...)
		if err != nil {
			return day, m.noRate(codes, "")
		}
		return day, nil
	}
	day, err := m.data.At(on, codes...)
	if err != nil {
		return day, m.noRate(codes, fmt.Sprintf(" from %s back to %s", on, on-rates.LookBack))
	}
	return day, nil
}

// noRate refuses a request because no day in its period has rates of all the
// currencies.
func (m moment) noRate(codes []currency.Code, period string) *apierror.Error {
	sentence := "There is no day with a rate for " + join(codes, ", ") + period
	if m.sources != rates.AllSources {
		sentence += " of the source " + m.sources.String()
	}
	return apierror.New(http.StatusNotFound, codeNoRate, sentence+".")
}

// must panics for an error that only a defect can cause: the bounds of amounts
// and rates exclude overflow, and the embedded files are tested. The server
// logs the panic of a request.
func must(err error) {
	if err != nil {
		panic(fmt.Errorf("impossible: %w", err))
	}
}

// sources are the names of the sources of an answer, joined by +.
type sources string

// Schema lists all values.
func (sources) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for some := rates.SourceECB; some <= rates.AllSources; some++ {
		s.Enum = append(s.Enum, some.String())
	}
	return s
}

// parseSources reads the query parameter source.
func parseSources(text string) (rates.Source, *apierror.Error) {
	var all rates.Source
	for name := range strings.SplitSeq(text, ",") {
		name = strings.Trim(name, " ")
		i := slices.IndexFunc(rates.SourceNames[:], func(known string) bool { return strings.EqualFold(known, name) })
		if i < 0 {
			return 0, invalidParameter("source", name, append(rates.SourceNames[:], "or several of them separated by commas")...)
		}
		all |= 1 << i
	}
	return all, nil
}

// The codes of this API's refusals. The document lists them for each
// endpoint.
const (
	codeInvalidCurrency  = "invalid_currency"
	codeUnknownCurrency  = "unknown_currency"
	codeCurrencyRetired  = "currency_retired"
	codeInvalidAmount    = "invalid_amount"
	codeInvalidDate      = "invalid_date"
	codeNoRate           = "no_rate"
	codeUnknownParameter = "unknown_parameter"
	codeInvalidRequest   = "invalid_request"
	codeBodyTooLarge     = "body_too_large"
	codeUnsupportedMedia = "unsupported_media_type"
	codeNotAcceptable    = "not_acceptable"
)

func invalidCurrency(text string) *apierror.Error {
	return apierror.New(http.StatusBadRequest, codeInvalidCurrency,
		quote(text)+" is not a currency code. A code has three letters, such as EUR or usd.")
}

func unknownCurrency(code currency.Code) *apierror.Error {
	return apierror.New(http.StatusNotFound, codeUnknownCurrency,
		"The currency "+string(code)+" is unknown. GET /api/currencies lists all currencies.")
}

// currencyRetired refuses a retired currency.
func currencyRetired(c currency.Currency) *apierror.Error {
	return apierror.New(http.StatusNotFound, codeCurrencyRetired,
		"The currency "+string(c.Code)+" ended on "+c.End.String()+". Its successor is "+string(c.Successor)+".").
		With("successor", c.Successor)
}

// amountBounds ends the messages about amounts.
const amountBounds = "with at most 15 digits before the point, 10 after it and 15 significant digits in all."

func invalidAmount(text string) *apierror.Error {
	return apierror.New(http.StatusBadRequest, codeInvalidAmount,
		quote(text)+" is not an amount. An amount is a decimal above zero in plain notation, such as 10 or 0.25, "+amountBounds)
}

// invalidAmountNumber refuses a JSON number, which may have an exponent.
func invalidAmountNumber(text string) *apierror.Error {
	return apierror.New(http.StatusBadRequest, codeInvalidAmount,
		quote(text)+" is not an amount. An amount is a number above zero, "+amountBounds)
}

func invalidDate(text string) *apierror.Error {
	return apierror.New(http.StatusBadRequest, codeInvalidDate,
		quote(text)+" is not a date. A date is a day of the calendar such as 2026-01-31.")
}

func futureDate(day, today civil.Date) *apierror.Error {
	return apierror.New(http.StatusBadRequest, codeInvalidDate,
		"The date "+day.String()+" is in the future. Today is "+today.String()+" in UTC.")
}

// invalidParameter refuses a value that is not allowed.
func invalidParameter(name, value string, allowed ...string) *apierror.Error {
	return apierror.New(http.StatusBadRequest, codeInvalidRequest,
		quote(value)+" is not a value of the query parameter "+name+". Allowed: "+strings.Join(allowed, ", ")+".")
}

func invalidRequest(sentence string) *apierror.Error {
	return apierror.New(http.StatusBadRequest, codeInvalidRequest, sentence)
}
