package login

import (
	"cmp"
	"slices"
)

// evictionOrder says which rows a full table evicts first.
type evictionOrder uint8

const (
	evictFirst evictionOrder = iota
	evictLast
	evictionOrders
)

// table maps hashes to small byte strings, and keeps the order in which they
// changed. It is not safe for concurrent use.
type table struct {
	index  map[hash]uint32
	rows   []tableRow // rows[0] is unused, so that 0 ends a list
	free   uint32     // list of unused rows, through next
	queues [evictionOrders]queue
	bodies slab
}

type tableRow struct {
	expires    int64
	prev, next uint32
	slot       uint32
	length     uint16
	order      evictionOrder
	id         hash
}

// queue is a list of rows; the first is the one that changed longest ago.
type queue struct {
	first, last uint32
	length      int
}

// get returns the body of a row, or nil. It is valid until the table
// changes.
func (t *table) get(id hash) []byte {
	at, ok := t.index[id]
	if !ok {
		return nil
	}
	return t.bodies.at(t.rows[at].slot, int(t.rows[at].length))
}

// read returns a row with a copy of its body. The body is nil if there is no
// such row.
func (t *table) read(id hash) (body []byte, expires int64, order evictionOrder) {
	at, ok := t.index[id]
	if !ok {
		return nil, 0, evictFirst
	}
	return slices.Clone(t.get(id)), t.rows[at].expires, t.rows[at].order
}

// put stores a row as the newest. An empty body deletes it.
func (t *table) put(id hash, body []byte, expires int64, order evictionOrder) {
	if len(body) == 0 {
		t.remove(id)
		return
	}
	at, ok := t.index[id]
	if ok {
		t.unlink(at)
		t.bodies.release(t.rows[at].slot, int(t.rows[at].length))
	} else {
		at = t.unused()
		t.index[id] = at
	}
	t.rows[at] = tableRow{
		id: id, expires: expires, order: order,
		slot: t.bodies.store(body), length: uint16(len(body)),
	}
	t.link(at)
}

func (t *table) remove(id hash) {
	at, ok := t.index[id]
	if !ok {
		return
	}
	t.unlink(at)
	t.bodies.release(t.rows[at].slot, int(t.rows[at].length))
	delete(t.index, id)
	t.rows[at] = tableRow{next: t.free}
	t.free = at
}

// trim removes a few expired rows, so that no caller pays for all, and then
// evicts rows until the table fits its capacity. It returns the evicted.
func (t *table) trim(instant int64, capacity int) (evicted []hash) {
	for order := range t.queues {
		for range 4 {
			first := t.queues[order].first
			if first == 0 || t.rows[first].expires > instant {
				break
			}
			t.remove(t.rows[first].id)
		}
	}
	for len(t.index) > capacity {
		id := t.rows[t.nextEvicted(capacity)].id
		t.remove(id)
		evicted = append(evicted, id)
	}
	return evicted
}

// nextEvicted is the row to evict. Rows to evict last fill at most three
// quarters of the capacity; otherwise a table full of them could not count
// the failures of any other account.
func (t *table) nextEvicted(capacity int) uint32 {
	if t.queues[evictFirst].length == 0 || t.queues[evictLast].length > capacity*3/4 {
		return t.queues[evictLast].first
	}
	return t.queues[evictFirst].first
}

// sort sorts each queue by expiry. The journal returns rows in no useful
// order.
func (t *table) sort() {
	for order := range t.queues {
		var sorted []uint32
		for at := t.queues[order].first; at != 0; at = t.rows[at].next {
			sorted = append(sorted, at)
		}
		slices.SortFunc(sorted, func(a, b uint32) int {
			return cmp.Compare(t.rows[a].expires, t.rows[b].expires)
		})
		t.queues[order] = queue{}
		for _, at := range sorted {
			t.link(at)
		}
	}
}

func (t *table) unused() uint32 {
	if t.index == nil {
		t.index = make(map[hash]uint32)
		t.rows = make([]tableRow, 1)
	}
	if at := t.free; at != 0 {
		t.free = t.rows[at].next
		return at
	}
	t.rows = append(t.rows, tableRow{})
	return uint32(len(t.rows) - 1)
}

func (t *table) link(at uint32) {
	into := &t.queues[t.rows[at].order]
	t.rows[at].prev, t.rows[at].next = into.last, 0
	if into.last == 0 {
		into.first = at
	} else {
		t.rows[into.last].next = at
	}
	into.last = at
	into.length++
}

func (t *table) unlink(at uint32) {
	from := &t.queues[t.rows[at].order]
	prev, next := t.rows[at].prev, t.rows[at].next
	if prev == 0 {
		from.first = next
	} else {
		t.rows[prev].next = next
	}
	if next == 0 {
		from.last = prev
	} else {
		t.rows[next].prev = prev
	}
	from.length--
}
