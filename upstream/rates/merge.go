package rates

import (
	"slices"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
)

// Merge returns the rates of all sources: for each day and currency the value
// of the bank, or else that of a parity, or else the indicative one. A parity
// needs the value of its base on that day, and a base is no parity itself.
func Merge(indicative, bank *Dataset) *Dataset { return combine(indicative, bank, parities()) }

// Overlay returns the values of both datasets. For one day and currency it has
// the value of over.
func Overlay(base, over *Dataset) *Dataset { return combine(base, over, nil) }

// combine puts one dataset over another, and adds parities to the vector of
// each day. A vector has a cell for each column, and an empty one without a
// source.
func combine(base, over *Dataset, fixed []Parity) *Dataset {
	d := &Dataset{codes: slices.Concat(base.codes, over.codes)}
	for _, p := range fixed {
		d.codes = append(d.codes, p.Code)
	}
	slices.Sort(d.codes)
	d.codes = slices.Compact(d.codes)
	d.spans = make([]span, len(d.codes))
	columns := [2][]uint16{d.columns(base.codes), d.columns(over.codes)}
	days := slices.Concat(base.days, over.days)
	slices.Sort(days)
	days = slices.Compact(days)
	d.cells = make([]cell, 0, len(base.cells)+len(over.cells)+len(days)*len(fixed))
	vector := make([]cell, len(d.codes))
	for _, day := range days {
		clear(vector)
		for i, from := range [2]*Dataset{base, over} {
			if found, ok := from.On(day); ok {
				for _, c := range from.row(found.index) {
					c.column = columns[i][c.column]
					vector[c.column] = c
				}
			}
		}
		d.addParities(fixed, day, vector)
		for _, c := range vector {
			if c.source != 0 {
				d.append(day, c)
			}
		}
	}
	return d.finish()
}

// columns returns the column of each code.
func (d *Dataset) columns(codes []currency.Code) []uint16 {
	columns := make([]uint16, len(codes))
	for i, code := range codes {
		columns[i], _ = d.column(code)
	}
	return columns
}
