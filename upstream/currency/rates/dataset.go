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

	published civil.Date // the newest day of the bank
	sources   Source     // those whose values are used: see From
	whole     bool       // see Whole
}

// cell is one value of one day. It is a Value spread out, which makes it 16
// bytes and not 24: with the ECB's history there are some 280,000 of them.
type cell struct {
	coefficient int64
	exponent    int8
	source      Source
	column      uint16
	divisor     uint16
	carried     bool // of an earlier day: see Merge
}

func (c cell) value() Value { return Value{c.coefficient, c.exponent, c.divisor} }

// span is the first and last day with a new rate of a currency, and the source of
// the last.
type span struct {
	first, last civil.Date
	source      Source
}

// Listing is the first and last day with a new rate of a currency.
type Listing struct {
	Code        currency.Code
	First, Last civil.Date
	// Source is that of the last rate: SourceParity for a parity with any base.
	Source Source
}

// From returns the dataset without the values of other sources. It has the
// same version.
func (d *Dataset) From(sources Source) *Dataset {
	view := *d
	view.sources = sources
	return &view
}

// Whole returns the dataset for answers with all currencies of a day: the new rate
// that Latest and At look for may be of any. Latest does not go beyond the newest
// publication of the bank: a later day may lack its currencies.
func (d *Dataset) Whole() *Dataset {
	view := *d
	view.whole = true
	return &view
}

// hasBank reports whether the values of the bank may be used. If so, the euro is
// one of its currencies, with its days.
func (d *Dataset) hasBank() bool { return d.published != 0 && d.sources&SourceECB != 0 }

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
	list := make([]Listing, 0, len(d.codes)+1)
	for i, code := range d.codes {
		s, source := d.spans[i], d.spans[i].source
		if s.first.IsZero() {
			continue // a parity whose base has no rates
		}
		if source&SourceParity != 0 {
			source = SourceParity
		}
		list = append(list, Listing{code, s.first, s.last, source})
	}
	euro := Listing{currency.Euro, d.days[0], d.published, SourceECB}
	if d.published == 0 {
		euro.Last, euro.Source = d.Newest(), SourceIndicative
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

// Latest returns the newest day that quotes all the currencies and has a new rate
// of one of them, of any age, or ErrNoRate. Without currencies it returns the
// newest day with a new rate. A day may lack other currencies: see "Tables" in
// the package comment.
func (d *Dataset) Latest(codes ...currency.Code) (Day, error) {
	i := len(d.days) - 1
	if d.whole && d.hasBank() {
		i = d.before(d.published + 1)
	}
	return d.search(i, 0, codes)
}

// At returns the same as Latest of the days at or before on, at most LookBack
// days back. A currency that is retired on that day has no rate, even if one of
// its last days is in the range.
func (d *Dataset) At(on civil.Date, codes ...currency.Code) (Day, error) {
	if on > lastDay(codes...) {
		return Day{}, ErrNoRate
	}
	return d.search(d.before(on+1), on-LookBack, codes)
}

// search searches from day i down to the day oldest.
func (d *Dataset) search(i int, oldest civil.Date, codes []currency.Code) (Day, error) {
	columns, quoted := d.columnsOf(codes...)
	if !quoted {
		return Day{}, ErrNoRate
	}
	for _, column := range columns {
		// Skip the days after the last day of a currency.
		if column != euroColumn && i >= 0 {
			i = min(i, d.before(d.spans[column].last+LookBack+1))
		}
	}
	return d.newest(i, oldest, columns)
}

// newest does the same for columns.
func (d *Dataset) newest(i int, oldest civil.Date, columns []uint16) (Day, error) {
	for ; i >= 0 && d.days[i] >= oldest; i-- {
		if d.answers(d.row(i), columns) {
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

// answers reports whether a row quotes all columns, and has a new value of one of
// them; in a whole vector and for the euro alone, of any.
func (d *Dataset) answers(row []cell, columns []uint16) bool {
	renewed, euro := false, true
	for _, column := range columns {
		c, found := find(row, column)
		if !found || !d.uses(c) {
			return false
		}
		renewed, euro = renewed || !c.carried, euro && column == euroColumn
	}
	return renewed || (d.whole || euro) && d.renewed(row)
}

// renewed reports whether a row has a new value: for a whole vector any, for the
// euro alone one of the bank if there is a bank.
func (d *Dataset) renewed(row []cell) bool {
	return slices.ContainsFunc(row, func(c cell) bool {
		return d.uses(c) && !c.carried && (d.whole || !d.hasBank() || c.source == SourceECB)
	})
}

// euroColumn is the column of the euro. Rows have no cell of it.
const euroColumn = math.MaxUint16

// columnsOf returns the columns of codes, if all are quoted on any day.
func (d *Dataset) columnsOf(codes ...currency.Code) ([]uint16, bool) {
	columns := make([]uint16, len(codes))
	for i, code := range codes {
		var quoted bool
		if columns[i], quoted = d.column(code); !quoted {
			return nil, false
		}
	}
	return columns, true
}

// column returns the number of a code, if it is quoted on any day.
func (d *Dataset) column(code currency.Code) (uint16, bool) {
	if code == currency.Euro {
		return euroColumn, true
	}
	i, found := slices.BinarySearch(d.codes, code)
	return uint16(i), found
}

// row returns the cells of day i, by column.
func (d *Dataset) row(i int) []cell {
	return d.cells[d.starts[i]:d.starts[i+1]]
}

// find returns the value of a column in a row. The euro's is 1, never new, and no
// source's.
func find(row []cell, column uint16) (cell, bool) {
	if column == euroColumn {
		return cell{coefficient: 1, carried: true}, true
	}
	at := sort.Search(len(row), func(k int) bool { return row[k].column >= column })
	if at == len(row) || row[at].column != column {
		return cell{}, false
	}
	return row[at], true
}
