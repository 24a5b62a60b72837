package rates

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// Builder collects values for a Dataset. The zero Builder is empty. It is not
// safe for concurrent use.
type Builder struct {
	entries []entry
}

// entry is one value for a Dataset.
type entry struct {
	code   currency.Code
	value  Value
	day    civil.Date
	order  uint32 // the number of the call of Set
	source Source
}

// Set records that one euro bought value units of code on that day. The
// last value for a day and code is used. Values of the euro itself, zero
// Values and values of days before the euro are ignored.
func (b *Builder) Set(day civil.Date, code currency.Code, value Value, source Source) {
	if code != currency.Euro && !value.IsZero() {
		b.entries = append(b.entries, entry{code, value, day, uint32(len(b.entries)), source})
	}
}

// Build returns the Dataset. The Builder must not be used afterwards.
func (b *Builder) Build() *Dataset {
	euro, _ := currency.Lookup(currency.Euro)
	sorted := slices.DeleteFunc(b.entries, func(e entry) bool { return !euro.ActiveOn(e.day) })
	slices.SortFunc(sorted, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.day, y.day), cmp.Compare(x.code, y.code), cmp.Compare(x.order, y.order))
	})
	d := &Dataset{}
	d.codes = codesOf(sorted)
	d.spans = make([]span, len(d.codes))
	for i, e := range sorted {
		if i+1 < len(sorted) && sorted[i+1].day == e.day && sorted[i+1].code == e.code {
			continue // a later value for the same day and code follows
		}
		column, _ := d.column(e.code)
		d.append(e.day, cell{e.value.coefficient, e.value.exponent, e.source, column, e.value.divisor, false})
	}
	return d.finish()
}

// codesOf returns the codes of the entries, sorted: columns have the order of
// their codes.
func codesOf(entries []entry) []currency.Code {
	seen := make(map[currency.Code]struct{})
	for _, e := range entries {
		seen[e.code] = struct{}{}
	}
	codes := make([]currency.Code, 0, len(seen))
	for code := range seen {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return codes
}

// append adds the next cell in the order of days and columns.
func (d *Dataset) append(day civil.Date, c cell) {
	if n := len(d.days); n == 0 || d.days[n-1] != day {
		d.days = append(d.days, day)
		d.starts = append(d.starts, uint32(len(d.cells)))
	}
	d.cells = append(d.cells, c)
	if c.carried {
		return
	}
	s := &d.spans[c.column]
	if s.first.IsZero() {
		s.first = day
	}
	s.last, s.source = day, c.source
	if c.source == SourceECB {
		d.published = day
	}
}

// finish seals a dataset after its last cell.
func (d *Dataset) finish() *Dataset {
	d.starts = append(d.starts, uint32(len(d.cells)))
	d.cells = slices.Clip(d.cells)
	d.sources = AllSources
	return d
}

// Version identifies the content: two datasets have the same version if and
// only if their values are equal. It is 32 hexadecimal digits. It takes time:
// it is a digest of all values.
func (d *Dataset) Version() string {
	digest := sha256.New()
	var buffer [16]byte
	for _, code := range d.codes {
		digest.Write([]byte(code))
	}
	for i, day := range d.days {
		binary.LittleEndian.PutUint32(buffer[:], uint32(day))
		binary.LittleEndian.PutUint32(buffer[4:], uint32(len(d.row(i))))
		digest.Write(buffer[:8])
		for _, c := range d.row(i) {
			binary.LittleEndian.PutUint64(buffer[:], uint64(c.coefficient))
			binary.LittleEndian.PutUint16(buffer[8:], c.column)
			buffer[10], buffer[11] = byte(c.exponent), byte(c.source)
			binary.LittleEndian.PutUint16(buffer[12:], c.divisor)
			digest.Write(buffer[:14])
		}
	}
	return hex.EncodeToString(digest.Sum(nil)[:16])
}

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

// indicativeTable is generated by tools/ratesnap. INDICATIVE.json has the
// origin of each line, and what was left out.
//
//go:embed indicative.csv
var indicativeTable string

// Indicative returns the embedded market rates. They come from dated releases
// of a public-domain package that does not disclose its sources. They have no
// values of the days and currencies for which the bank's embedded rates or a
// parity has one. Merge leaves out those of the bank's other days. Each call
// parses the table.
func Indicative() (*Dataset, error) {
	d, err := ReadTable(indicativeTable, SourceIndicative)
	if err != nil {
		return nil, fmt.Errorf("reading the embedded market rates: %w", err)
	}
	return d, nil
}
