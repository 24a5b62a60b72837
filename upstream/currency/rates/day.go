package rates

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/apd/v3"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// Day is the vector of one day of a Dataset. It never changes.
type Day struct {
	data  *Dataset
	index int
}

// Quote is one line of a table of rates.
type Quote struct {
	Code currency.Code
	Rate Decimal
}

// Conversion is an amount of one currency in another.
type Conversion struct {
	// Rate is v(To)/v(From) to 12 significant digits, half-even.
	Rate Decimal
	// Result is Amount × Rate to 15 significant digits, half-even.
	Result Decimal
	// Rounded is the exact product Amount × Rate to the minor unit of To,
	// half-even. It keeps its decimals: 12.50. For a currency without a
	// minor unit (metals, units of account) it is Result.
	Rounded Decimal
}

// Date returns the day of the rates.
func (d Day) Date() civil.Date { return d.data.days[d.index] }

// Source returns the sources of the values of these currencies; without
// currencies, of the whole vector. The euro alone is the bank's, or else has the
// best source of the day, since it has no value.
func (d Day) Source(codes ...currency.Code) Source {
	var all, some Source
	for _, code := range codes {
		if c, found := d.lookup(code); found {
			some |= c.source
		}
	}
	if some != 0 {
		return some
	}
	if len(codes) > 0 && d.data.hasBank() {
		return SourceECB
	}
	for _, c := range d.data.row(d.index) {
		if d.data.uses(c) {
			all |= c.source
		}
	}
	if len(codes) > 0 {
		return all & -all // the best
	}
	return all
}

// Values yields the value of each currency of the day but the euro, by code.
func (d Day) Values() iter.Seq2[currency.Code, Value] {
	return func(yield func(currency.Code, Value) bool) {
		for _, c := range d.data.row(d.index) {
			if d.data.uses(c) && !yield(d.data.codes[c.column], c.value()) {
				return
			}
		}
	}
}

// Value returns how many units of the currency one euro bought, if the day
// quotes it.
func (d Day) Value(code currency.Code) (Value, bool) {
	c, found := d.lookup(code)
	return c.value(), found
}

// Rate returns how many units of to one unit of from bought, to 12
// significant digits, or ErrNoRate if the day lacks one of them.
func (d Day) Rate(from, to currency.Code) (Decimal, error) {
	a, haveFrom := d.lookup(from)
	b, haveTo := d.lookup(to)
	if !haveFrom || !haveTo {
		return Decimal{}, ErrNoRate
	}
	return quotient(b.value(), a.value()), nil
}

// Rates returns the rates from base to each of the symbols in their order, or
// to every currency of the day including base, sorted by code, if none are
// given. It is ErrNoRate if the day lacks base or a symbol.
func (d Day) Rates(base currency.Code, symbols ...currency.Code) ([]Quote, error) {
	from, found := d.lookup(base)
	if !found {
		return nil, ErrNoRate
	}
	if len(symbols) == 0 {
		return d.table(from.value()), nil
	}
	quotes := make([]Quote, len(symbols))
	for i, code := range symbols {
		to, found := d.lookup(code)
		if !found {
			return nil, ErrNoRate
		}
		quotes[i] = Quote{code, quotient(to.value(), from.value())}
	}
	return quotes, nil
}

// table returns the rates of every currency of the day from the one with
// that value. It goes through the vector and looks nothing up.
func (d Day) table(from Value) []Quote {
	row := d.data.row(d.index)
	quotes := make([]Quote, 0, len(row)+1)
	for _, c := range row {
		if d.data.uses(c) {
			quotes = append(quotes, Quote{d.data.codes[c.column], quotient(c.value(), from)})
		}
	}
	at, _ := slices.BinarySearchFunc(quotes, currency.Euro, func(q Quote, code currency.Code) int {
		return cmp.Compare(q.Code, code)
	})
	return slices.Insert(quotes, at, Quote{currency.Euro, quotient(one, from)})
}

// Convert returns amount of from in to. It is ErrNoRate if the day lacks
// one of them.
func (d Day) Convert(from, to currency.Code, amount Decimal) (Conversion, error) {
	rate, err := d.Rate(from, to)
	if err != nil {
		return Conversion{}, err
	}
	var exact, result apd.Decimal
	arithmetic := apd.MakeErrDecimal(exactContext)
	arithmetic.Mul(&exact, &amount.number, &rate.number)
	arithmetic.Ctx = resultContext
	arithmetic.Round(&result, &exact)
	c := Conversion{Rate: rate, Result: trimmed(&result)}
	if known, found := currency.Lookup(to); found && known.MinorUnit != currency.NoMinorUnit {
		arithmetic.Ctx = exactContext
		arithmetic.Quantize(&c.Rounded.number, &exact, int32(-known.MinorUnit))
	} else {
		c.Rounded = c.Result
	}
	if err := arithmetic.Err(); err != nil {
		return Conversion{}, fmt.Errorf("multiplying %s by %s: %w", amount, rate, err)
	}
	return c, nil
}

// lookup returns the value of a code on the day.
func (d Day) lookup(code currency.Code) (cell, bool) {
	column, known := d.data.column(code)
	c, found := find(d.data.row(d.index), column)
	return c, known && found && d.data.uses(c)
}
