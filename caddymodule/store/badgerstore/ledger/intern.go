package ledger

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// intern numbers strings that occur over and over: plans, endpoints, sets
// of abilities. They are as many as configurations and people have named,
// and are never removed. Turning a number into its string takes no lock,
// nor does the way back for strings that have settled.
type intern struct {
	list    atomic.Pointer[[]string]
	settled atomic.Pointer[map[string]uint32] // never written to

	mu     sync.Mutex
	number map[string]uint32
}

// fewNames is up to how many strings settle at once. Beyond, they do each
// time that their number has doubled, so that many cost little each. The
// first of all are looked for one by one, which is faster than to hash.
const (
	fewNames   = 64
	firstNames = 8
)

// at returns the string of a number that index returned.
func (n *intern) at(i uint32) string { return (*n.list.Load())[i] }

// all returns the strings by their numbers.
func (n *intern) all() []string {
	if list := n.list.Load(); list != nil {
		return *list
	}
	return nil
}

// index returns the number of a string, a new one if need be.
func (n *intern) index(s string) uint32 {
	if list := n.list.Load(); list != nil {
		for i, name := range (*list)[:min(len(*list), firstNames)] {
			if name == s {
				return uint32(i)
			}
		}
	}
	settled := n.settled.Load()
	if settled != nil {
		if i, ok := (*settled)[s]; ok {
			return i
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, ok := n.number[s]; ok {
		return i
	}
	var list []string
	if old := n.list.Load(); old != nil {
		list = *old
	} else {
		n.number = map[string]uint32{}
	}
	s = strings.Clone(s)
	i := uint32(len(list))
	list = append(list, s) // readers look at their own length of it
	n.list.Store(&list)
	n.number[s] = i
	if settled = n.settled.Load(); len(list) <= fewNames || len(list) >= 2*len(*settled) {
		all := maps.Clone(n.number)
		n.settled.Store(&all)
	}
	return i
}

// chunkSize is how much text an arena allocates at a time.
const chunkSize = 4 << 10

// arena keeps many short strings in few allocations. What it returns
// stays valid for as long as somebody holds it: chunks are written once
// and freed by the garbage collector, never used again.
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

// textAt returns the string without copying it: its bytes are never
// written again, which is what makes the conversion sound.
func textAt(chunks []*[chunkSize]byte, r ref) string {
	if r.length == 0 {
		return ""
	}
	return unsafe.String(&chunks[r.chunk][r.offset], int(r.length))
}
