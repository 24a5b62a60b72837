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

// Builder collects values into a Dataset. The zero Builder is ready. It is
// not safe for concurrent use.
type Builder struct {
	entries []entry
}

// entry is one value on its way into a Dataset.
type entry struct {
	day    civil.Date
	code   currency.Code
	value  Value
	source Source
}

// Set records that one euro bought value units of code on that day. The
// last value set for a day and code counts. Values of the euro itself are
// ignored: it is 1 by definition.
func (b *Builder) Set(day civil.Date, code currency.Code, value Value, source Source) {
	if code != currency.Euro {
		b.entries = append(b.entries, entry{day, code, value, source})
	}
}

// Add records all values of a dataset over those set so far.
func (b *Builder) Add(d *Dataset) {
	for i, day := range d.days {
		for _, c := range d.row(i) {
			b.Set(day, d.codes[c.column], c.value(), c.source)
		}
	}
}

// Build returns what was collected. The Builder may be used on.
func (b *Builder) Build() *Dataset {
	sorted := b.entries
	slices.SortStableFunc(sorted, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.day, y.day), cmp.Compare(x.code, y.code))
	})
	d := &Dataset{}
	d.codes = codesOf(sorted)
	d.spans = make([]span, len(d.codes))
	for i, e := range sorted {
		if i+1 < len(sorted) && sorted[i+1].day == e.day && sorted[i+1].code == e.code {
			continue // a later value for the same day and code follows
		}
		d.append(e)
	}
	d.starts = append(d.starts, uint32(len(d.cells)))
	d.cells = slices.Clip(d.cells)
	d.version = d.hash()
	return d
}

// Merge returns a dataset of the values of both, those of over winning
// where both have one for the same day and currency.
func Merge(base, over *Dataset) *Dataset {
	var b Builder
	b.entries = make([]entry, 0, len(base.cells)+len(over.cells))
	b.Add(base)
	b.Add(over)
	return b.Build()
}

// codesOf returns the codes that occur, sorted, so that a column's number
// orders as its code does.
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

// append adds the next entry in the order of days and codes.
func (d *Dataset) append(e entry) {
	if n := len(d.days); n == 0 || d.days[n-1] != e.day {
		d.days = append(d.days, e.day)
		d.starts = append(d.starts, uint32(len(d.cells)))
	}
	column, _ := d.column(e.code)
	d.cells = append(d.cells, cell{e.value.coefficient, e.value.exponent, e.source, column})
	s := &d.spans[column]
	if s.first.IsZero() {
		s.first = e.day
	}
	s.last, s.source = e.day, e.source
}

// hash digests every value, so that two datasets have one version if and
// only if they answer alike.
func (d *Dataset) hash() string {
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
			digest.Write(buffer[:12])
		}
	}
	return hex.EncodeToString(digest.Sum(nil)[:16])
}
