package ledger

import (
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// intern numbers strings that occur often: plans, sets of abilities and names of
// endpoints. There are few different ones, so they are never removed. Turning a number into its
// string takes no lock.
type intern struct {
	list atomic.Pointer[[]string]

	mu     sync.RWMutex
	number map[string]uint32
}

// at returns the string of a number that index returned.
func (n *intern) at(i uint32) string { return (*n.list.Load())[i] }

// size returns how many strings have a number.
func (n *intern) size() uint32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return uint32(len(n.number))
}

// find returns the number of a string that index has numbered.
func (n *intern) find(s string) (i uint32, found bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	i, found = n.number[s]
	return i, found
}

// index returns the number of a string, a new one if need be.
func (n *intern) index(s string) uint32 {
	if i, found := n.find(s); found {
		return i
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, found := n.number[s]; found {
		return i
	}
	var list []string
	if old := n.list.Load(); old != nil {
		list = *old
	} else {
		n.number = map[string]uint32{}
	}
	s = strings.Clone(s)
	n.number[s] = uint32(len(list))
	list = append(list, s) // readers see only the length of their own slice
	n.list.Store(&list)
	return n.number[s]
}

// chunkSize is how much text an arena allocates at a time.
const chunkSize = 4 << 10

// arena keeps many short strings in few allocations. Its strings stay valid
// as long as they are referenced: a chunk is written once, never reused, and
// freed by the garbage collector.
type arena struct {
	chunks []*[chunkSize]byte
	last   int // bytes in use of the last chunk
	size   int // bytes in use, those of forgotten strings included
}

// ref is where an arena keeps a string: chunk, offset and length.
type ref struct {
	chunk  uint32
	offset uint16
	length uint16
}

// add stores a string of at most chunkSize bytes.
func (a *arena) add(s string) ref {
	if len(a.chunks) == 0 || a.last+len(s) > chunkSize {
		a.chunks = append(a.chunks, new([chunkSize]byte))
		a.last = 0
	}
	r := ref{chunk: uint32(len(a.chunks) - 1), offset: uint16(a.last), length: uint16(len(s))}
	copy(a.chunks[r.chunk][a.last:], s)
	a.last += len(s)
	a.size += len(s)
	return r
}

// at returns the string of a ref.
func (a *arena) at(r ref) string { return textAt(a.chunks, r) }

// textAt returns the string without copying it. The conversion is sound
// because the bytes are never written again.
func textAt(chunks []*[chunkSize]byte, r ref) string {
	if r.length == 0 {
		return ""
	}
	return unsafe.String(&chunks[r.chunk][r.offset], int(r.length))
}
