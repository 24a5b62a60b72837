package rates

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// Merge returns the rates of all sources, one at a time for a currency: see
// "Three sources" in the package comment. A base of a parity is no parity itself.
func Merge(indicative, bank *Dataset) *Dataset {
	codes := slices.Concat(indicative.codes, bank.codes)
	for _, p := range parities() {
		codes = append(codes, p.Code)
	}
	var published civil.Date // the bank's newest publication
	last := make([]struct {  // the bank's last value, by column
		cell
		day civil.Date
	}, len(codes))
	return combine(indicative, bank, codes, func(d *Dataset, day civil.Date, vector []cell) {
		for column, c := range vector {
			if c.source == SourceECB {
				last[column].cell, last[column].day, published = c, day, day
			}
		}
		carried, current := day != published, day-published <= LookBack
		for column := range vector {
			of := last[column]
			if of.day == 0 || published-of.day > LookBack {
				continue // the bank does not publish it
			}
			known, _ := currency.Lookup(d.codes[column])
			vector[column] = cell{}
			if current && of.day == published && !known.RetiredOn(day) {
				vector[column], vector[column].carried = of.cell, carried
			}
		}
		euro := cell{carried: carried}
		if current {
			euro.coefficient = 1
		}
		d.addParities(day, euro, vector)
	})
}

// Overlay returns the values of both datasets. For one day and currency it has
// the value of over.
func Overlay(base, over *Dataset) *Dataset {
	return combine(base, over, slices.Concat(base.codes, over.codes), func(*Dataset, civil.Date, []cell) {})
}

// combine puts one dataset over another. Fill completes the vector of each day:
// it has a cell for each column, and an empty one without a source.
func combine(base, over *Dataset, codes []currency.Code, fill func(*Dataset, civil.Date, []cell)) *Dataset {
	d := &Dataset{codes: codes}
	slices.Sort(d.codes)
	d.codes = slices.Compact(d.codes)
	d.spans = make([]span, len(d.codes))
	days := slices.Concat(base.days, over.days)
	slices.Sort(days)
	days = slices.Compact(days)
	d.cells = make([]cell, 0, len(base.cells)+len(over.cells)+len(days)*len(parities()))
	vector := make([]cell, len(d.codes))
	for _, day := range days {
		clear(vector)
		for _, from := range [2]*Dataset{base, over} {
			if found, ok := from.On(day); ok {
				for _, c := range from.row(found.index) {
					c.column, _ = d.column(from.codes[c.column])
					vector[c.column] = c
				}
			}
		}
		fill(d, day, vector)
		for _, c := range vector {
			if c.source != 0 {
				d.append(day, c)
			}
		}
	}
	return d.finish()
}

// parityTable has a line for each parity, with its authority.
//
//go:embed parities.csv
var parityTable string

// Parity is the fixed rate of a currency: BaseUnits of Base buy Units of
// Code, by the decision of an authority.
type Parity struct {
	Code, Base       currency.Code
	Units, BaseUnits Value
	// Since and Until are the first and the last day. Until is zero while the
	// parity holds.
	Since, Until civil.Date
	// Authority is the central bank, government or council that fixed the rate,
	// URL a page that says so.
	Authority, URL string
}

// parities are sorted by code and day. They are read once. The table is part of the program: only a defect can
// make it panic.
var parities = sync.OnceValue(func() []Parity {
	list, err := parseParities(parityTable)
	if err != nil {
		panic(fmt.Errorf("reading the embedded parities: %w", err))
	}
	return list
})

// Parities returns every parity, for tools/ratesnap.
func Parities() []Parity { return parities() }

// ParityOn returns the parity of a currency on a day.
func ParityOn(code currency.Code, day civil.Date) (Parity, bool) {
	i := slices.IndexFunc(parities(), func(p Parity) bool { return p.Code == code && p.holds(day) })
	if i < 0 {
		return Parity{}, false
	}
	return parities()[i], true
}

// Rate returns how many units of Code one unit of Base buys, to 12 significant
// digits.
func (p Parity) Rate() Decimal { return quotient(p.Units, p.BaseUnits) }

func (p Parity) holds(day civil.Date) bool {
	return day >= p.Since && (p.Until.IsZero() || day <= p.Until)
}

// one is the value of the euro, and of a base in most parities.
var one = Value{coefficient: 1}

// of returns the value of the parity's currency for the value of its base. It
// is exact unless it has more than 18 digits: the bank's values have 7.
func (p Parity) of(base Value) Value {
	value := Value{exponent: base.exponent + p.Units.exponent - p.BaseUnits.exponent}
	if p.BaseUnits != one {
		value.divisor = uint16(p.BaseUnits.coefficient)
	}
	high, low := bits.Mul64(uint64(base.coefficient), uint64(p.Units.coefficient))
	for high != 0 || low >= 10*valueScale { // drop the last digit
		var rest uint64
		high, rest = high/10, high%10
		low, _ = bits.Div64(rest, low, 10)
		value.exponent++
	}
	value.coefficient = int64(low)
	return value
}

// addParities puts those that hold on a day into its vector, which has a cell for
// each column, in place of values that are not the bank's. A parity is as new as
// the value of its base; euro is that of the euro.
func (d *Dataset) addParities(day civil.Date, euro cell, vector []cell) {
	for _, p := range parities() {
		column, _ := d.column(p.Code)
		if !p.holds(day) || vector[column].source == SourceECB {
			continue
		}
		base := euro
		if p.Base != currency.Euro {
			base = cell{}
			if at, quoted := d.column(p.Base); quoted {
				base = vector[at]
			}
		}
		vector[column] = cell{}
		if !base.value().IsZero() {
			value := p.of(base.value())
			vector[column] = cell{value.coefficient, value.exponent, base.source | SourceParity, column, value.divisor, base.carried}
		}
	}
}

// parseParities reads the table.
func parseParities(table string) ([]Parity, error) {
	lines, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTable, err)
	}
	var list []Parity
	for _, line := range lines[1:] {
		if len(line) != 8 {
			return nil, fmt.Errorf("%w: %q", errTable, line)
		}
		p := Parity{Code: currency.Code(line[0]), Base: currency.Code(line[3]), Authority: line[6], URL: line[7]}
		if p.Units, err = ParseValue(line[1]); err == nil {
			p.BaseUnits, err = ParseValue(line[2])
		}
		if p.BaseUnits.coefficient > math.MaxUint16 {
			err = errors.New("base_units has too many digits")
		}
		if err == nil {
			p.Since, err = civil.Parse(line[4])
		}
		if err == nil && line[5] != "" {
			p.Until, err = civil.Parse(line[5])
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errTable, p.Code, err)
		}
		list = append(list, p)
	}
	return list, nil
}
