package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A segment is a file of fixed size: a header, then records, then zeros.
//
//	magic             8 bytes
//	number            8 bytes; that of the file's name
//	size of the file  8 bytes
//	CRC-32C of these  4 bytes
//	zeros             4 bytes
//
// A record begins at a multiple of 8 bytes, after a word of 8 bytes. From the
// low end the word has
//
//	size              21 bits; endMark if the segment ends here
//	check of the size 11 bits
//	CRC-32C           32 bits; of the record and its place
//
// The size has its own check because a wrong size can make an intact record
// look like a torn one. All numbers are little-endian.
const (
	magic      = "tollwal1"
	headerSize = 32
	wordSize   = 8

	sizeBits = 21
	endMark  = 1<<sizeBits - 1
)

// spread makes adjacent numbers differ in many bits.
const spread = 0x9e3779b1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fault is damage at a place in a segment.
type fault struct {
	at     int
	reason string
}

func (f *fault) Error() string { return fmt.Sprintf("byte %d: %s", f.at, f.reason) }

// header returns the header of a segment.
func header(number uint64, size int) []byte {
	h := []byte(magic)
	h = binary.LittleEndian.AppendUint64(h, number)
	h = binary.LittleEndian.AppendUint64(h, uint64(size))
	return binary.LittleEndian.AppendUint64(h, uint64(crc32.Checksum(h, castagnoli)))
}

// footprint is the space that a record takes, in bytes.
func footprint(size int) int { return wordSize + (size+wordSize-1)&^(wordSize-1) }

// checked returns a size with its check.
func checked(size uint32) uint32 {
	check := size * spread >> sizeBits
	return check<<sizeBits | size
}

// word returns the word before a record. It does not match a record that was
// copied from another place or has another size.
func word(number uint64, at int, size uint32, record []byte) uint64 {
	place := (uint32(number)*spread+uint32(at))*spread + size
	return uint64(crc32.Update(place, castagnoli, record))<<32 | uint64(checked(size))
}

// appendRecord appends a record with its word and padding.
func appendRecord(buf []byte, number uint64, at int, record []byte) []byte {
	buf = binary.LittleEndian.AppendUint64(buf, word(number, at, uint32(len(record)), record))
	buf = append(buf, record...)
	return append(buf, make([]byte, footprint(len(record))-wordSize-len(record))...)
}

// recordAt returns the record at a place, nil if there is none, and whether
// the segment ends there.
func recordAt(w *window, number uint64, at int) (record []byte, ends bool, err error) {
	data, err := w.read(at, wordSize)
	if err != nil {
		return nil, false, err
	}
	found := binary.LittleEndian.Uint64(data)
	size := uint32(found) & endMark
	switch {
	case found == 0:
		return nil, false, nil
	case size == endMark && found == word(number, at, endMark, nil):
		return nil, true, nil
	case size == 0 || uint32(found) != checked(size) || int(size) > w.size-at-wordSize:
		return nil, false, &fault{at, "the size of a record is wrong"}
	}
	record, err = w.read(at+wordSize, int(size))
	if err == nil && found != word(number, at, size, record) {
		err = &fault{at, "the checksum of a record is wrong"}
	}
	return record, false, err
}
