package rates

import (
	"slices"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
)

// Merge returns a dataset with the values of both. For one day and currency, a
// value of the bank replaces one of the snapshot; of the same source, over
// replaces the other.
func Merge(base, over *Dataset) *Dataset {
	d := &Dataset{codes: slices.Compact(slices.Sorted(slices.Values(slices.Concat(base.codes, over.codes))))}
	d.spans = make([]span, len(d.codes))
	d.cells = make([]cell, 0, len(base.cells)+len(over.cells))
	low := walker{data: base, columns: d.columnsOf(base.codes)}
	high := walker{data: over, columns: d.columnsOf(over.codes)}
	for !low.done() || !high.done() {
		switch {
		case high.done() || !low.done() && low.before(&high):
			d.take(&low)
		case low.done() || high.before(&low):
			d.take(&high)
		case low.source() == SourceECB && high.source() != SourceECB:
			high.step()
			d.take(&low)
		default: // both have the day and the currency
			low.step()
			d.take(&high)
		}
	}
	return d.finish()
}

// columnsOf returns the column of each of the codes.
func (d *Dataset) columnsOf(codes []currency.Code) []uint16 {
	columns := make([]uint16, len(codes))
	for i, code := range codes {
		columns[i], _ = d.column(code)
	}
	return columns
}

// take appends the cell that a walker is at.
func (d *Dataset) take(w *walker) {
	day, c := w.data.days[w.day], w.data.cells[w.cell]
	c.column = w.columns[c.column]
	w.step()
	d.append(day, c)
}

// walker goes through the cells of a dataset in order, with the columns of
// another.
type walker struct {
	data      *Dataset
	columns   []uint16
	day, cell int
}

func (w *walker) done() bool { return w.cell == len(w.data.cells) }

func (w *walker) source() Source { return w.data.cells[w.cell].source }

// before reports whether w is at an earlier day or column than other.
func (w *walker) before(other *walker) bool {
	if a, b := w.data.days[w.day], other.data.days[other.day]; a != b {
		return a < b
	}
	return w.columns[w.data.cells[w.cell].column] < other.columns[other.data.cells[other.cell].column]
}

func (w *walker) step() {
	w.cell++
	if w.cell == int(w.data.starts[w.day+1]) {
		w.day++
	}
}
