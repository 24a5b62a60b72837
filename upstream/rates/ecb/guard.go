package ecb

import (
	"fmt"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
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
	// ISO 4217 or were not alive on the day, or of a day on which the euro
	// was not, Invalid not above zero or out of all proportion, Future of days to come, and Contradicting
	// too far from the value already held for their day.
	Unknown, Invalid, Future, Contradicting int
}

// Dropped returns how many values were not taken.
func (r Report) Dropped() int { return r.Unknown + r.Invalid + r.Future + r.Contradicting }

// bounds are what a value of a reference rate lies between. The extremes in
// the bank's history are the Cypriot pound (0.57) and the old Turkish lira
// (1.9 million).
type bounds struct{ low, high rates.Value }

func newBounds() (bounds, error) {
	low, err := rates.ParseValue("0.0001")
	if err != nil {
		return bounds{}, fmt.Errorf("lower bound: %w", err)
	}
	high, err := rates.ParseValue("100000000")
	if err != nil {
		return bounds{}, fmt.Errorf("upper bound: %w", err)
	}
	return bounds{low, high}, nil
}

// screen returns the values of a publication that can be believed on their
// own, given what is served and which day it is.
func (b bounds) screen(records []record, served *rates.Dataset, today civil.Date) ([]Quote, Report) {
	var report Report
	quotes := make([]Quote, 0, len(records))
	euro, _ := currency.Lookup(currency.Euro)
	for _, r := range records {
		known, found := currency.Lookup(r.code)
		value, err := rates.ParseValue(r.text)
		switch {
		case !found || r.code == currency.Euro || !known.ActiveOn(r.day) || !euro.ActiveOn(r.day):
			report.Unknown++
		case err != nil || value.Cmp(b.low) < 0 || value.Cmp(b.high) > 0:
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
	return quotes, report
}

// contradicts reports whether another value is served for the day and
// currency that this one cannot be a correction of.
func contradicts(served *rates.Dataset, r record, value rates.Value) bool {
	day, found := served.On(r.day)
	if !found {
		return false
	}
	held, found := day.Value(r.code)
	return found && held.Jumps(value)
}

// enough checks that no new day lacks most of the currencies.
func enough(quotes []Quote, held *rates.Dataset) error {
	last, found := held.On(held.Newest())
	if !found {
		return nil
	}
	before := 0
	for range last.Values() {
		before++
	}
	counts := make(map[civil.Date]int)
	for _, q := range quotes {
		if q.Day > held.Newest() {
			counts[q.Day]++
		}
	}
	for day, count := range counts {
		if 2*count < before {
			return fmt.Errorf("%w: %d on %s after %d on %s", ErrTooFew, count, day, before, held.Newest())
		}
	}
	return nil
}

// believe returns what may be served of all the values held, and those that
// wait for confirmation. It depends on nothing but the values: so after a
// restart the same values wait as before it.
func believe(held *rates.Dataset) (*rates.Dataset, []Quote) {
	levels := make(map[currency.Code]*level)
	var doubted []Quote
	for day := range held.All() {
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
	for _, listing := range held.Listings() {
		if l := levels[listing.Code]; l != nil {
			waiting = append(waiting, l.waiting...)
		}
	}
	doubted = append(doubted, waiting...)
	if len(doubted) == 0 {
		return held, nil
	}
	return without(held, doubted), waiting
}

// without returns a dataset that lacks some values.
func without(held *rates.Dataset, lacking []Quote) *rates.Dataset {
	drop := make(map[Quote]struct{}, len(lacking))
	for _, q := range lacking {
		drop[q] = struct{}{}
	}
	var builder rates.Builder
	for day := range held.All() {
		for code, value := range day.Values() {
			if _, found := drop[Quote{day.Date(), code, value}]; !found {
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
