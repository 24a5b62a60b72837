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

	mu  sync.Mutex
	all map[string]uint32
}

// fewNames is up to how many strings settle at once. Beyond, they do each
// time that their number has doubled, so that many cost little each.
const fewNames = 64

// at returns the string of a number that index returned.
func (n *intern) at(i uint32) string { return (*n.list.Load())[i] }

// index returns the number of a string, a new one if need be.
func (n *intern) index(s string) uint32 {
	settled := n.settled.Load()
	if settled != nil {
		if i, ok := (*settled)[s]; ok {
			return i
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, ok := n.all[s]; ok {
		return i
	}
	var list []string
	if old := n.list.Load(); old != nil {
		list = *old
	} else {
		n.all = map[string]uint32{}
	}
	s = strings.Clone(s)
	i := uint32(len(list))
	list = append(list, s) // readers look at their own length of it
	n.list.Store(&list)
	n.all[s] = i
	if settled = n.settled.Load(); len(list) <= fewNames || len(list) >= 2*len(*settled) {
		all := maps.Clone(n.all)
		n.settled.Store(&all)
	}
	return i
}

// chunkSize is how much text an arena allocates at a time.
const chunkSize = 16 << 10

// arena keeps many short strings in few allocations. What it returns
// stays valid for as long as somebody holds it: chunks are written once
// and freed by the garbage collector, never used again.
type arena struct {
	chunks [][]byte
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
	last := len(a.chunks) - 1
	if last < 0 || len(a.chunks[last])+len(s) > chunkSize {
		a.chunks = append(a.chunks, make([]byte, 0, chunkSize))
		last++
	}
	offset := len(a.chunks[last])
	a.chunks[last] = append(a.chunks[last], s...)
	a.size += len(s)
	return ref{chunk: uint32(last), offset: uint16(offset), length: uint16(len(s))}
}

// at returns the string without copying it: its bytes are never written
// again, which is what makes the conversion sound.
func (a *arena) at(r ref) string {
	if r.length == 0 {
		return ""
	}
	return unsafe.String(&a.chunks[r.chunk][r.offset], int(r.length))
}
