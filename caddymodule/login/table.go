package login

import (
	"cmp"
	"slices"
)

// rank orders rows by the harm that forgetting them would do.
type rank uint8

const (
	light rank = iota
	heavy
	ranks
)

// table maps keys to small byte strings and knows in which order they were
// last touched. It is not safe for concurrent use.
type table[K comparable] struct {
	index  map[K]uint32
	rows   []row[K] // rows[0] is nobody, so that 0 ends a list
	free   uint32   // list of unused rows, through next
	queues [ranks]queue
	bodies slab
}

type row[K comparable] struct {
	expires    int64
	prev, next uint32
	slot       uint32
	length     uint16
	rank       rank
	key        K
}

// queue is a list of rows; the one longest untouched is first.
type queue struct {
	first, last uint32
	length      int
}

// get returns the body of a row, or nil. It is valid until the next change
// of the table.
func (t *table[K]) get(key K) []byte {
	at, ok := t.index[key]
	if !ok {
		return nil
	}
	return t.bodies.at(t.rows[at].slot, int(t.rows[at].length))
}

// copyOf returns all of a row that is worth saving; the body is nil if
// there is none.
func (t *table[K]) copyOf(key K) (body []byte, expires int64, as rank) {
	at, ok := t.index[key]
	if !ok {
		return nil, 0, light
	}
	found := &t.rows[at]
	return slices.Clone(t.bodies.at(found.slot, int(found.length))), found.expires, found.rank
}

// put stores a row as the one touched last. An empty body removes it.
func (t *table[K]) put(key K, body []byte, expires int64, as rank) {
	if len(body) == 0 {
		t.remove(key)
		return
	}
	at, ok := t.index[key]
	if ok {
		t.unlink(at)
		t.bodies.release(t.rows[at].slot, int(t.rows[at].length))
	} else {
		at = t.vacant()
		t.index[key] = at
	}
	t.rows[at] = row[K]{
		key: key, expires: expires, rank: as,
		slot: t.bodies.store(body), length: uint16(len(body)),
	}
	t.link(at)
}

func (t *table[K]) remove(key K) {
	at, ok := t.index[key]
	if !ok {
		return
	}
	t.unlink(at)
	t.bodies.release(t.rows[at].slot, int(t.rows[at].length))
	delete(t.index, key)
	t.rows[at] = row[K]{next: t.free}
	t.free = at
}

// trim removes expired rows, a few at a time so that no caller pays for
// all, and then the rows beyond capacity. It returns the keys of the
// latter.
func (t *table[K]) trim(instant int64, capacity int) (evicted []K) {
	for which := range t.queues {
		for range 4 {
			first := t.queues[which].first
			if first == 0 || t.rows[first].expires > instant {
				break
			}
			t.remove(t.rows[first].key)
		}
	}
	for len(t.index) > capacity {
		key := t.rows[t.leastHarmful(capacity)].key
		t.remove(key)
		evicted = append(evicted, key)
	}
	return evicted
}

// leastHarmful is the row to evict. Heavy rows are spared up to three
// quarters of the capacity; without that limit, a table full of them would
// have no room to count the failures of any other account.
func (t *table[K]) leastHarmful(capacity int) uint32 {
	if t.queues[light].length == 0 || t.queues[heavy].length > capacity*3/4 {
		return t.queues[heavy].first
	}
	return t.queues[light].first
}

// sort puts each queue into the order of expiry. Rows come from disk in
// the order of their keys.
func (t *table[K]) sort() {
	for which := range t.queues {
		var order []uint32
		for at := t.queues[which].first; at != 0; at = t.rows[at].next {
			order = append(order, at)
		}
		slices.SortFunc(order, func(a, b uint32) int {
			return cmp.Compare(t.rows[a].expires, t.rows[b].expires)
		})
		t.queues[which] = queue{}
		for _, at := range order {
			t.link(at)
		}
	}
}

func (t *table[K]) vacant() uint32 {
	if t.index == nil {
		t.index = make(map[K]uint32)
		t.rows = make([]row[K], 1)
	}
	if at := t.free; at != 0 {
		t.free = t.rows[at].next
		return at
	}
	t.rows = append(t.rows, row[K]{})
	return uint32(len(t.rows) - 1)
}

func (t *table[K]) link(at uint32) {
	into := &t.queues[t.rows[at].rank]
	t.rows[at].prev, t.rows[at].next = into.last, 0
	if into.last == 0 {
		into.first = at
	} else {
		t.rows[into.last].next = at
	}
	into.last = at
	into.length++
}

func (t *table[K]) unlink(at uint32) {
	from := &t.queues[t.rows[at].rank]
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
