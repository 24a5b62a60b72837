package rates

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

var errTable = errors.New("table of rates is malformed")

// ReadTable reads a table with a line a day, in any order, and a column a
// currency. An empty field and N/A are no value. It is for the tables in the
// program: what comes from a network needs more checks.
func ReadTable(table string, source Source) (*Dataset, error) {
	header, lines, _ := strings.Cut(table, "\n")
	d := &Dataset{}
	columns, err := d.readHeader(header)
	if err != nil {
		return nil, err
	}
	type row struct {
		day   civil.Date
		cells []cell
	}
	var rows []row
	// The bank's history has 200,000 values: allocate once for all.
	cells := make([]cell, 0, len(columns)*(strings.Count(lines, "\n")+1))
	for line := range strings.Lines(lines) {
		first, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ",")
		day, err := civil.Parse(first)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errTable, err)
		}
		at, start := 0, len(cells)
		for field := range strings.SplitSeq(rest, ",") {
			if at == len(columns) {
				return nil, fmt.Errorf("%w: more than %d values on %s", errTable, at, day)
			}
			if field != "" && field != "N/A" {
				value, err := ParseValue(field)
				if err != nil {
					return nil, fmt.Errorf("%w: value %d on %s: %w", errTable, at+1, day, err)
				}
				if columns[at] < 0 {
					return nil, fmt.Errorf("%w: value %d on %s has no currency", errTable, at+1, day)
				}
				cells = append(cells, cell{value.coefficient, value.exponent, source, uint16(columns[at]), value.divisor, false})
			}
			at++
		}
		if at < len(columns) {
			return nil, fmt.Errorf("%w: %d values on %s for %d currencies", errTable, at, day, len(columns))
		}
		r := row{day, cells[start:]}
		slices.SortFunc(r.cells, func(a, b cell) int { return cmp.Compare(a.column, b.column) })
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.day, b.day) })
	d.cells = make([]cell, 0, len(cells))
	for i, r := range rows {
		if i > 0 && r.day == rows[i-1].day {
			return nil, fmt.Errorf("%w: two lines of %s", errTable, r.day)
		}
		for _, c := range r.cells {
			d.append(r.day, c)
		}
	}
	return d.finish(), nil
}

// readHeader reads the codes of the first line, sets those of the dataset, and
// returns the column of each field: -1 for an empty one.
func (d *Dataset) readHeader(line string) ([]int, error) {
	fields := strings.Split(strings.TrimRight(line, "\r\n"), ",")[1:]
	for _, field := range fields {
		if field == "" {
			continue
		}
		code, err := currency.Parse(field)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errTable, err)
		}
		d.codes = append(d.codes, code)
	}
	slices.Sort(d.codes)
	d.spans = make([]span, len(d.codes))
	columns := make([]int, len(fields))
	for i, field := range fields {
		columns[i] = slices.Index(d.codes, currency.Code(field))
	}
	return columns, nil
}
