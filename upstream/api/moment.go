package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

// moment is what one request sees: one dataset and one day that counts as
// today, in UTC. All parts of an answer come from it, so a refresh that
// happens meanwhile cannot make them contradict each other.
type moment struct {
	data  *rates.Dataset
	today civil.Date
}

func (s *service) moment() moment {
	return moment{s.source.Current(), civil.Of(s.now().UTC())}
}

// firstDay is the first day of the euro, on which all rates are based.
var firstDay = civil.New(1999, time.January, 4)

// date reads a date of the request. No text is the zero Date. The future
// has no rates, and saying so beats answering with the newest.
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

// rateDate reads the date of a rate: before the first day there is none.
func (m moment) rateDate(text string) (civil.Date, *apierror.Error) {
	day, refusal := m.date(text)
	if refusal == nil && !day.IsZero() && day < firstDay {
		refusal = apierror.New(http.StatusNotFound, codeNoRate, fmt.Sprintf("There are no rates before %s.", firstDay))
	}
	return day, refusal
}

// known refuses currencies without rates. A currency that has ended is
// still answered for the days when it lived; on tells which day is asked
// about, the zero Date meaning today.
func (m moment) known(on civil.Date, codes ...currency.Code) *apierror.Error {
	if on.IsZero() {
		on = m.today
	}
	for _, code := range codes {
		known, found := currency.Lookup(code)
		quoted := found && m.data.Quotes(code)
		switch {
		case !found:
			return unknownCurrency(code)
		case known.RetiredOn(on), !quoted && !known.End.IsZero():
			return currencyRetired(known)
		case !quoted:
			return unknownCurrency(code)
		}
	}
	return nil
}

// day returns the newest day that quotes all the currencies: at or before
// on, at most rates.LookBack days back, or of all if on is zero.
func (m moment) day(on civil.Date, codes ...currency.Code) (rates.Day, *apierror.Error) {
	var day rates.Day
	var err error
	if on.IsZero() {
		day, err = m.data.Latest(codes...)
	} else {
		day, err = m.data.At(on, codes...)
	}
	if errors.Is(err, rates.ErrNoRate) {
		return day, noRate(on, codes)
	}
	must(err)
	return day, nil
}

// noRate refuses a question that no day within reach answers.
func noRate(on civil.Date, codes []currency.Code) *apierror.Error {
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = string(code)
	}
	sentence := "There is no day with a rate for " + strings.Join(names, ", ")
	if !on.IsZero() {
		sentence += fmt.Sprintf(" from %s back to %s", on, on-rates.LookBack)
	}
	return apierror.New(http.StatusNotFound, codeNoRate, sentence+".")
}

// must panics for an error that only a defect in the arithmetic can bring:
// the bounds on amounts and rates leave no room for overflow. The server
// logs the panic with its cause, which an answer must not show.
func must(err error) {
	if err != nil {
		panic(fmt.Errorf("computing rates: %w", err))
	}
}
