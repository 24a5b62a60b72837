package api

import (
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

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
