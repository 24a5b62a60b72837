package rates

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

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
