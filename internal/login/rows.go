package login

import (
	"container/list"
	"time"
)

// rows are cells in memory, and the order in which they changed. They are not
// safe for concurrent use.
type rows struct {
	index  map[CellKey]*list.Element // each Value is a *row
	queues [classes]list.List        // the row that changed longest ago is the first
	used   [classes]int              // in bytes
	most   [classes]int
	now    int64 // reading of the clock
}

// row is a cell in memory.
type row struct {
	value   []byte
	expires int64
	size    int
	key     CellKey
	class   Class
	kept    kept // of an address
}

// rowSize is what a row needs beside its value, in bytes.
const rowSize = 200

func newRows(most [classes]int) rows { return rows{index: map[CellKey]*list.Element{}, most: most} }

// bytes is what a row counts in its class. Allocations are rounded up.
func (r *row) bytes() int { return rowSize + max(cap(r.value), r.size+r.size/4) }

// get returns a cell at an instant.
func (r *rows) get(key CellKey, now time.Time) Cell {
	r.now = nanoseconds(now)
	cell := Cell{Now: now}
	if one := r.row(key); one != nil && one.expires > r.now {
		cell.Value = one.value
	}
	return cell
}

// change replaces a cell.
func (r *rows) change(key CellKey, c Change) {
	r.put(&row{key: key, value: c.Value, expires: c.Expires.UnixNano(), class: c.Class, size: c.Size})
}

// put stores a cell as the newest of its class. An empty value deletes it.
func (r *rows) put(one *row) {
	if before := r.row(one.key); before != nil {
		r.remove(before)
	}
	if len(one.value) > 0 {
		r.used[one.class] += one.bytes()
		r.index[one.key] = r.queues[one.class].PushBack(one)
	}
}

// row returns the row of a cell, nil if there is none.
func (r *rows) row(key CellKey) *row {
	if at := r.index[key]; at != nil {
		return at.Value.(*row)
	}
	return nil
}

func (r *rows) remove(one *row) {
	r.used[one.class] -= one.bytes()
	r.queues[one.class].Remove(r.index[one.key])
	delete(r.index, one.key)
}

// trim deletes some expired cells, so that no caller pays for all, and then
// evicts cells of each class that uses too much memory. It returns the evicted that
// the journal can have.
func (r *rows) trim() (evicted []CellKey) {
	for class := range classes {
		evicted = append(evicted, r.trimClass(class)...)
	}
	return evicted
}

func (r *rows) trimClass(class Class) (evicted []CellKey) {
	for n := 0; r.queues[class].Len() > 0; n++ {
		one := r.queues[class].Front().Value.(*row)
		expired := one.expires <= r.now
		if r.used[class] <= r.most[class] && !(expired && n < 4) {
			break
		}
		r.remove(one)
		if !expired && (class != AddressClass || one.kept.before) {
			evicted = append(evicted, one.key)
		}
	}
	return evicted
}
