package login

import "time"

// rows are cells in memory, and the order in which they changed. They are not
// safe for concurrent use.
type rows struct {
	index  map[CellKey]*row
	queues [classes]queue
	used   [classes]int // in bytes
	most   [classes]int
	now    int64 // reading of the clock
}

// row is a cell in memory.
type row struct {
	value      []byte
	expires    int64
	size       int
	prev, next *row // in the queue of its class
	key        CellKey
	class      Class
}

// queue is a list of rows; the first is the one that changed longest ago.
type queue struct{ first, last *row }

// rowSize is what a row needs beside its value, in bytes.
const rowSize = 200

func newRows(most [classes]int) rows { return rows{index: make(map[CellKey]*row), most: most} }

// bytes is what a row counts in its class. Allocations are rounded up.
func (r *row) bytes() int { return rowSize + max(cap(r.value), r.size+r.size/4) }

// get returns a cell at an instant.
func (r *rows) get(key CellKey, now time.Time) Cell {
	r.now = nanoseconds(now)
	cell := Cell{Now: now}
	if one, ok := r.index[key]; ok && one.expires > r.now {
		cell.Value = one.value
	}
	return cell
}

// change replaces a cell.
func (r *rows) change(key CellKey, c Change) {
	r.put(row{key: key, value: c.Value, expires: c.Expires.UnixNano(), class: c.Class, size: c.Size})
}

// put stores a cell as the newest of its class. An empty value deletes it.
func (r *rows) put(one row) {
	at, ok := r.index[one.key]
	switch {
	case ok:
		r.unlink(at)
	case len(one.value) > 0:
		at = new(row)
		r.index[one.key] = at
	}
	if len(one.value) == 0 {
		delete(r.index, one.key)
		return
	}
	*at = one
	r.used[at.class] += at.bytes()
	into := &r.queues[at.class]
	if at.prev = into.last; at.prev == nil {
		into.first = at
	} else {
		at.prev.next = at
	}
	into.last = at
}

// unlink removes a row from its class.
func (r *rows) unlink(at *row) {
	r.used[at.class] -= at.bytes()
	from := &r.queues[at.class]
	if at.prev == nil {
		from.first = at.next
	} else {
		at.prev.next = at.next
	}
	if at.next == nil {
		from.last = at.prev
	} else {
		at.next.prev = at.prev
	}
}

// trim deletes some expired cells, so that no caller pays for all, and then
// evicts cells of each class that uses too much memory. It returns the evicted.
func (r *rows) trim() (evicted []CellKey) {
	for class := range r.queues {
		for n := 0; r.queues[class].first != nil; n++ {
			one := r.queues[class].first
			expired := one.expires <= r.now
			if r.used[class] <= r.most[class] && !(expired && n < 4) {
				break
			}
			r.unlink(one)
			delete(r.index, one.key)
			if !expired {
				evicted = append(evicted, one.key)
			}
		}
	}
	return evicted
}
