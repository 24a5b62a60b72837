package ledger

// index leads from a hash to the numbers of the rows that have it. It is
// a flat table with linear probing: a look-up is one place in memory as a
// rule, where a map is several, and it costs from 11 to 21 bytes for a
// row. The hashes must be spread evenly in their high bits. The table
// knows no rows: whoever looks up compares the row that was found and
// goes on to the next. Rows are never removed.
type index struct {
	slots []uint64 // a power of two of them; see slot
	shift uint8    // of a hash, to find its home
	used  int
}

// slot is a hash and a row's number, or 0 for an empty slot: the numbers
// are kept from 1 on.
func slot(hash, row uint32) uint64 { return uint64(hash)<<32 | uint64(row+1) }

// minSlots is the size of the smallest table.
const minSlots = 8

// first is the place where a look-up begins. The table must not be empty.
func (x *index) first(hash uint32) uint32 { return hash >> (x.shift & 31) }

// next finds the next row with a hash, from a place on, and the place to
// go on from.
func (x *index) next(hash, at uint32) (row, after uint32, ok bool) {
	mask := uint32(len(x.slots) - 1)
	for {
		s := x.slots[at&mask]
		at++
		if s == 0 {
			return 0, at, false
		}
		if uint32(s>>32) == hash {
			return uint32(s) - 1, at, true
		}
	}
}

// add puts a row under a hash.
func (x *index) add(hash, row uint32) {
	if x.used*4 >= len(x.slots)*3 {
		x.grow()
	}
	x.put(slot(hash, row))
	x.used++
}

func (x *index) put(s uint64) {
	mask := uint32(len(x.slots) - 1)
	at := x.first(uint32(s >> 32))
	for x.slots[at&mask] != 0 {
		at++
	}
	x.slots[at&mask] = s
}

func (x *index) grow() {
	old := x.slots
	x.slots = make([]uint64, max(minSlots, 2*len(old)))
	x.shift = 32
	for n := len(x.slots); n > 1; n /= 2 {
		x.shift--
	}
	for _, s := range old {
		if s != 0 {
			x.put(s)
		}
	}
}
