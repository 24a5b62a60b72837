package ecb

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// confirmations is how many publications in a row must agree on a new level
// before it is believed.
const confirmations = 3

// Quote is one value of a publication.
type Quote struct {
	Day   civil.Date
	Code  currency.Code
	Value rates.Value
}

// Report says what became of a publication.
type Report struct {
	// Accepted is how many values were taken, new or not.
	Accepted int
	// The others were dropped. Unknown are of currencies that are not in
	// ISO 4217 or were not alive on the day, or of a day before the euro;
	// Invalid are not above zero or out of all proportion; Contradicting are
	// too far from the value already accepted for their day.
	Unknown, Invalid, Future, Contradicting int
}

// Dropped returns how many values were not taken.
func (r Report) Dropped() int { return r.Unknown + r.Invalid + r.Future + r.Contradicting }

// lowest and highest are the bounds of a reference rate. The extremes in the
// bank's history are the Cypriot pound (0.57) and the old Turkish lira (1.9
// million).
var lowest, highest = parsed("0.0001"), parsed("100000000")

func parsed(text string) rates.Value {
	value, err := rates.ParseValue(text)
	if err != nil {
		panic(err) // impossible: the text is a value
	}
	return value
}

// screen returns the values of a publication that can be believed on their
// own, given what is served and which day it is. Without any it is an error.
func screen(records []record, served *rates.Dataset, today civil.Date) ([]Quote, Report, error) {
	var report Report
	quotes := make([]Quote, 0, len(records))
	euro, _ := currency.Lookup(currency.Euro)
	for _, r := range records {
		known, found := currency.Lookup(r.code)
		value, err := rates.ParseValue(r.text)
		switch {
		case !found || r.code == currency.Euro || !known.ActiveOn(r.day) || !euro.ActiveOn(r.day):
			report.Unknown++
		case err != nil || value.Cmp(lowest) < 0 || value.Cmp(highest) > 0:
			report.Invalid++
		case r.day > today:
			report.Future++
		case contradicts(served, r, value):
			report.Contradicting++
		default:
			report.Accepted++
			quotes = append(quotes, Quote{r.day, r.code, value})
		}
	}
	if len(quotes) == 0 && len(records) > 0 {
		return nil, report, fmt.Errorf("%w: all %d values are invalid", ErrMalformed, len(records))
	}
	return quotes, report, nil
}

// contradicts reports whether another value is served for the day and
// currency that this one cannot be a correction of.
func contradicts(served *rates.Dataset, r record, value rates.Value) bool {
	accepted := valueOn(served, r.day, r.code)
	return !accepted.IsZero() && accepted.Jumps(value)
}

// valueOn returns the value of a currency on a day, zero if there is none.
func valueOn(data *rates.Dataset, on civil.Date, code currency.Code) rates.Value {
	day, found := data.On(on)
	if !found {
		return rates.Value{}
	}
	value, _ := day.Value(code)
	return value
}

// enough checks that no new day lacks most of the currencies.
func enough(quotes []Quote, accepted *rates.Dataset) error {
	last, found := accepted.On(accepted.Newest())
	if !found {
		return nil
	}
	before := 0
	for range last.Values() {
		before++
	}
	counts := make(map[civil.Date]int)
	for _, q := range quotes {
		if q.Day > accepted.Newest() {
			counts[q.Day]++
		}
	}
	for day, count := range counts {
		if 2*count < before {
			return fmt.Errorf("%w: %d on %s after %d on %s", ErrTooFew, count, day, before, accepted.Newest())
		}
	}
	return nil
}

// believe returns what may be served of all the values accepted, and those that
// wait for confirmation. It depends on nothing but the values: so after a
// restart the same values wait as before it.
func believe(accepted *rates.Dataset) (*rates.Dataset, []Quote) {
	levels := make(map[currency.Code]*level)
	var doubted []Quote
	for day := range accepted.All() {
		for code, value := range day.Values() {
			l := levels[code]
			if l == nil {
				l = &level{}
				levels[code] = l
			}
			doubted = append(doubted, l.add(Quote{day.Date(), code, value})...)
		}
	}
	var waiting []Quote
	for _, code := range slices.Sorted(maps.Keys(levels)) {
		waiting = append(waiting, levels[code].waiting...)
	}
	doubted = append(doubted, waiting...)
	if len(doubted) == 0 {
		return accepted, nil
	}
	drop := make(map[Quote]bool, len(doubted))
	for _, q := range doubted {
		drop[q] = true
	}
	return filtered(accepted, func(q Quote) bool { return !drop[q] }), waiting
}

// filtered returns the values of the bank that keep chooses.
func filtered(bank *rates.Dataset, keep func(Quote) bool) *rates.Dataset {
	var builder rates.Builder
	for day := range bank.All() {
		for code, value := range day.Values() {
			if keep(Quote{day.Date(), code, value}) {
				builder.Set(day.Date(), code, value, rates.SourceECB)
			}
		}
	}
	return builder.Build()
}

// level is the level that one currency is believed to be at.
type level struct {
	last    rates.Value
	waiting []Quote
}

// add takes the next value and returns those that are given up for good. A
// value near the last is believed, and shows that what waited was a spike. A
// value that jumped waits; once enough of them in a row agree with each
// other, they are believed together.
func (l *level) add(q Quote) []Quote {
	if l.last.IsZero() || !l.last.Jumps(q.Value) {
		spike := l.waiting
		l.last, l.waiting = q.Value, nil
		return spike
	}
	var spike []Quote
	if n := len(l.waiting); n > 0 && l.waiting[n-1].Value.Jumps(q.Value) {
		spike, l.waiting = l.waiting, nil
	}
	l.waiting = append(l.waiting, q)
	if len(l.waiting) == confirmations {
		l.last, l.waiting = q.Value, nil
	}
	return spike
}
