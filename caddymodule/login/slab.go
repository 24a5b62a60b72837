package login

import "encoding/binary"

// slotSizes are the sizes of slots, in bytes: multiples of 8, each about 1.6
// times the one before, so that little memory is wasted. The last one is
// larger than any row within Limits.
var slotSizes = [...]int{
	8, 24, 40, 64, 104, 168, 272, 440, 712, 1152, 1864, 3016, 4880, 7896, 12776, 20672, 33448, 54120,
}

// chunkSize is how much memory a slab takes at a time.
const chunkSize = 8 << 10

// slab keeps byte strings in a few large allocations, so that a million
// strings are not a million objects for the garbage collector. Slot and
// length identify a string.
type slab struct {
	sizes [len(slotSizes)]slots
}

// slots are the slots of one size. A free slot holds the number of the next
// free slot plus one.
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
	panic("login: row is larger than Limits allow")
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
	slots := &s.sizes[class]
	if slots.free != 0 {
		slot := slots.free - 1
		memory := s.at(slot, slotSizes[class])
		slots.free = binary.LittleEndian.Uint32(memory)
		copy(memory, text)
		return slot
	}
	slot := slots.used
	size := slotSizes[class]
	perChunk := max(1, chunkSize/size)
	if int(slot)%perChunk == 0 {
		slots.chunks = append(slots.chunks, make([]byte, perChunk*size))
	}
	slots.used++
	copy(s.at(slot, size), text)
	return slot
}

// release frees the slot of a string of the given length.
func (s *slab) release(slot uint32, length int) {
	class := sizeClass(length)
	slots := &s.sizes[class]
	binary.LittleEndian.PutUint32(s.at(slot, slotSizes[class]), slots.free)
	slots.free = slot + 1
}
