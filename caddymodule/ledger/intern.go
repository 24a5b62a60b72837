package ledger

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// intern numbers the few strings that a configuration knows: plans, sets
// of abilities, endpoints. Reading takes no lock. Strings are never
// removed; there are as many as configurations have named.
type intern struct {
	mu    sync.Mutex
	table atomic.Pointer[internTable]
}

type internTable struct {
	list  []string
	index map[string]uint32
}

// at returns the string of a number that index returned.
func (n *intern) at(i uint32) string { return n.table.Load().list[i] }

// index returns the number of a string, a new one if need be.
func (n *intern) index(s string) uint32 {
	if t := n.table.Load(); t != nil {
		if i, ok := t.index[s]; ok {
			return i
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	next := &internTable{index: map[string]uint32{}}
	if t := n.table.Load(); t != nil {
		if i, ok := t.index[s]; ok {
			return i
		}
		next.list, next.index = t.list, maps.Clone(t.index)
	}
	s = strings.Clone(s)
	i := uint32(len(next.list))
	next.list = append(next.list[:i:i], s)
	next.index[s] = i
	n.table.Store(next)
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
