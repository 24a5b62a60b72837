package rates

import (
	"errors"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// LookBack is how many days older than the requested day a rate may be. The
// ECB's longest pause is five days (Easter, Christmas), so 14 cover every
// holiday. Older rates would be mistaken for current ones: the gap of the
// krona from 2008 to 2018 has no rates.
const LookBack = 14

// ErrNoRate means that no day in the range has rates of the currencies.
var ErrNoRate = errors.New("no rate for these currencies on that day or the 14 before it")

// Dataset has all days with their vectors. It never changes, so it is safe
// for concurrent use, and all parts of an answer from one Dataset are
// consistent.
type Dataset struct {
	codes []currency.Code // sorted; a cell's column is an index here
	spans []span          // by column

	days   []civil.Date // ascending
	starts []uint32     // starts[i] to starts[i+1] are the cells of days[i]
	cells  []cell       // by day, then by column

	// sources are those whose values are used: see From.
	sources Source
}

// cell is one value of one day. It is a Value spread out, which makes it 16
// bytes and not 24: with the ECB's history there are some 280,000 of them.
type cell struct {
	coefficient int64
	exponent    int8
	source      Source
	column      uint16
	divisor     uint16
}

func (c cell) value() Value { return Value{c.coefficient, c.exponent, c.divisor} }

// span is the first and last day that quote a currency, the source of the
// last, and the last day of the bank.
type span struct {
	first, last civil.Date
	source      Source
	lastOfBank  civil.Date
}

// Listing is the first and last day with a rate of a currency.
type Listing struct {
	Code currency.Code
	// First and Last are the first and last day with a rate.
	First, Last civil.Date
	// Source is the bank if its newest publication has the currency, or else a
	// parity if the last rate is one, or else the indicative rates.
	Source Source
}

// From returns the dataset without the values of other sources. It has the
// same version.
func (d *Dataset) From(sources Source) *Dataset {
	view := *d
	view.sources = sources
	return &view
}

// uses reports whether a value may be used: all its sources are chosen.
func (d *Dataset) uses(c cell) bool { return c.source&^d.sources == 0 }

// Days returns the number of days with rates.
func (d *Dataset) Days() int { return len(d.days) }

// First returns the first day with rates, or the zero Date of an empty
// dataset.
func (d *Dataset) First() civil.Date {
	if len(d.days) == 0 {
		return 0
	}
	return d.days[0]
}

// Newest returns the last day with rates, or the zero Date of an empty
// dataset.
func (d *Dataset) Newest() civil.Date {
	if len(d.days) == 0 {
		return 0
	}
	return d.days[len(d.days)-1]
}

// Listings returns every currency with a rate on any day, sorted by code,
// the euro included.
func (d *Dataset) Listings() []Listing {
	if len(d.days) == 0 {
		return nil
	}
	var lastOfBank civil.Date
	for _, s := range d.spans {
		lastOfBank = max(lastOfBank, s.lastOfBank)
	}
	list := make([]Listing, 0, len(d.codes)+1)
	for i, code := range d.codes {
		s, source := d.spans[i], d.spans[i].source
		switch {
		case s.first.IsZero():
			continue // a parity whose base has no rates
		case lastOfBank != 0 && s.lastOfBank == lastOfBank:
			source = SourceECB
		case source&SourceParity != 0:
			source = SourceParity
		}
		list = append(list, Listing{code, s.first, s.last, source})
	}
	euro := Listing{currency.Euro, d.days[0], d.Newest(), SourceECB}
	if lastOfBank == 0 {
		euro.Source = SourceIndicative
	}
	at := sort.Search(len(list), func(i int) bool { return list[i].Code > currency.Euro })
	return slices.Insert(list, at, euro)
}

// Quotes reports whether any day has a rate for the currency.
func (d *Dataset) Quotes(code currency.Code) bool {
	if code == currency.Euro {
		return len(d.days) > 0
	}
	column, found := d.column(code)
	return found && !d.spans[column].first.IsZero()
}

// All yields every day, by ascending date.
func (d *Dataset) All() iter.Seq[Day] {
	return func(yield func(Day) bool) {
		for i := range d.days {
			if !yield(Day{d, i}) {
				return
			}
		}
	}
}

// On returns exactly that day, if it has rates.
func (d *Dataset) On(day civil.Date) (Day, bool) {
	i, found := slices.BinarySearch(d.days, day)
	return Day{d, i}, found
}

// Latest returns the newest day that quotes all the currencies, of any age, or
// ErrNoRate. Without currencies it returns the newest day. A day may lack
// other currencies: see "Tables" in the package comment.
func (d *Dataset) Latest(codes ...currency.Code) (Day, error) {
	return d.newest(len(d.days)-1, 0, codes)
}

// At returns the newest day at or before on, at most LookBack days back,
// that quotes all the currencies, or ErrNoRate. A currency that is retired on
// that day has no rate, even if one of its last days is in the range.
func (d *Dataset) At(on civil.Date, codes ...currency.Code) (Day, error) {
	if on > lastDay(codes...) {
		return Day{}, ErrNoRate
	}
	return d.newest(d.before(on+1), on-LookBack, codes)
}

// newest searches from day i down to the day oldest.
func (d *Dataset) newest(i int, oldest civil.Date, codes []currency.Code) (Day, error) {
	columns := make([]uint16, 0, 8)
	for _, code := range codes {
		if code == currency.Euro {
			continue
		}
		column, found := d.column(code)
		if !found {
			return Day{}, ErrNoRate
		}
		// Skip the days after the last day of a currency.
		if last := d.spans[column].last; i >= 0 && d.days[i] > last {
			i = d.before(last + 1)
		}
		columns = append(columns, column)
	}
	for ; i >= 0 && d.days[i] >= oldest; i-- {
		if d.quotesAll(i, columns) {
			return Day{d, i}, nil
		}
	}
	return Day{}, ErrNoRate
}

// lastDay returns the last day on which all the currencies were active.
func lastDay(codes ...currency.Code) civil.Date {
	last := civil.Date(math.MaxInt32)
	for _, code := range codes {
		if known, _ := currency.Lookup(code); !known.End.IsZero() {
			last = min(last, known.End)
		}
	}
	return last
}

// before returns the index of the newest day before that one, -1 if none.
func (d *Dataset) before(day civil.Date) int {
	i, _ := slices.BinarySearch(d.days, day)
	return i - 1
}

// quotesAll reports whether a day quotes all columns; without columns, whether
// it quotes any.
func (d *Dataset) quotesAll(i int, columns []uint16) bool {
	for _, column := range columns {
		if c, found := find(d.row(i), column); !found || !d.uses(c) {
			return false
		}
	}
	return len(columns) > 0 || slices.ContainsFunc(d.row(i), d.uses)
}

// column returns the number of a code, if it is quoted on any day.
func (d *Dataset) column(code currency.Code) (uint16, bool) {
	i, found := slices.BinarySearch(d.codes, code)
	return uint16(i), found
}

// row returns the cells of day i, by column.
func (d *Dataset) row(i int) []cell {
	return d.cells[d.starts[i]:d.starts[i+1]]
}

// finder finds a currency in the rows of a dataset. Its column is looked
// up once, for all rows.
type finder struct {
	data   *Dataset
	column uint16
	euro   bool
	known  bool
}

func (d *Dataset) finder(code currency.Code) finder {
	column, known := d.column(code)
	return finder{d, column, code == currency.Euro, known}
}

// in returns the value of the currency in a row. The euro's is 1, and no
// source's.
func (f finder) in(row []cell) (cell, bool) {
	switch {
	case f.euro:
		return cell{coefficient: 1}, true
	case !f.known:
		return cell{}, false
	}
	c, found := find(row, f.column)
	return c, found && f.data.uses(c)
}

// find returns the value of a column in a row.
func find(row []cell, column uint16) (cell, bool) {
	at := sort.Search(len(row), func(k int) bool { return row[k].column >= column })
	if at == len(row) || row[at].column != column {
		return cell{}, false
	}
	return row[at], true
}
