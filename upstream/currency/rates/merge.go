package rates

import (
	"slices"

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
