package login

import "encoding/binary"

// slotSizes are the sizes a body may take up, in bytes: about 1.6 apart,
// so that little is wasted, and each a multiple of 8. The last one is above
// the largest row that Limits allow.
var slotSizes = [...]int{
	8, 24, 40, 64, 104, 168, 272, 440, 712, 1152, 1864, 3016, 4880, 7896, 12776, 20672, 33448, 54120,
}

// chunkSize is how much memory a slab takes at a time.
const chunkSize = 8 << 10

// slab keeps byte strings of many sizes in a few large allocations, so
// that a million of them are not a million objects for the garbage
// collector. A string is named by its slot and its length.
type slab struct {
	sizes [len(slotSizes)]slots
}

// slots are the strings of one size. A free slot holds the number of the
// next free one plus one.
type slots struct {
	chunks [][]byte
	used   uint32
	free   uint32
}

func sizeClass(length int) int {
	for class, size := range slotSizes {
		if length <= size {
			return class
		}
	}
	panic("throttle: row larger than limits allow")
}

// at returns the string of a slot, without copying.
func (s *slab) at(slot uint32, length int) []byte {
	class := sizeClass(length)
	size := slotSizes[class]
	perChunk := max(1, chunkSize/size)
	start := int(slot) % perChunk * size
	return s.sizes[class].chunks[int(slot)/perChunk][start : start+length : start+length]
}

// store copies a string into a free slot and returns its number.
func (s *slab) store(text []byte) uint32 {
	class := sizeClass(len(text))
	of := &s.sizes[class]
	if of.free != 0 {
		slot := of.free - 1
		held := s.at(slot, slotSizes[class])
		of.free = binary.LittleEndian.Uint32(held)
		copy(held, text)
		return slot
	}
	slot := of.used
	size := slotSizes[class]
	perChunk := max(1, chunkSize/size)
	if int(slot)%perChunk == 0 {
		of.chunks = append(of.chunks, make([]byte, perChunk*size))
	}
	of.used++
	copy(s.at(slot, size), text)
	return slot
}

// release frees the slot of a string of the given length.
func (s *slab) release(slot uint32, length int) {
	class := sizeClass(length)
	of := &s.sizes[class]
	binary.LittleEndian.PutUint32(s.at(slot, slotSizes[class]), of.free)
	of.free = slot + 1
}
