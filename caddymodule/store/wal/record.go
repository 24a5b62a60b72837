package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A segment is a file of fixed size: a header, then records, then zeros.
//
//	magic             8 bytes, with the version of the format
//	number            8 bytes; that of the file's name
//	size of the file  8 bytes
//	mark              8 bytes; see Options.Mark; the first format has none
//	CRC-32C of these  4 bytes
//	zeros             4 bytes
//
// A record begins at a multiple of 8 bytes. One word of 8 bytes is in
// front of it. From the low end the word has
//
//	size              21 bits; endMark says that another segment goes on
//	check of the size 11 bits
//	CRC-32C           32 bits; of the record and its place
//
// The size has a check of its own because a wrong one can make an intact
// record look like one that was torn. All numbers are little-endian.
const (
	magic         = "tollwal2"
	headerSize    = 40
	oldMagic      = "tollwal1"
	oldHeaderSize = 32
	wordSize      = 8

	sizeBits = 21
	endMark  = 1<<sizeBits - 1
)

// spread makes neighbouring numbers differ in many bits.
const spread = 0x9e3779b1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fault is damage at a place in a segment.
type fault struct {
	at     int
	reason string
}

func (f *fault) Error() string { return fmt.Sprintf("byte %d: %s", f.at, f.reason) }

// header is the beginning of a segment.
type header struct {
	number uint64
	size   int // of the file
	mark   uint64
	end    int // where the first record begins
}

func (h header) encode() (data [headerSize]byte) {
	copy(data[:], magic)
	binary.LittleEndian.PutUint64(data[8:], h.number)
	binary.LittleEndian.PutUint64(data[16:], uint64(h.size))
	binary.LittleEndian.PutUint64(data[24:], h.mark)
	binary.LittleEndian.PutUint32(data[32:], crc32.Checksum(data[:32], castagnoli))
	return data
}

// header reads the header and checks that the file is the whole segment of
// that number.
func (w *window) header(number uint64) (h header, err error) {
	h.end = headerSize
	if w.size >= len(oldMagic) {
		data, err := w.read(0, len(oldMagic))
		if err != nil {
			return h, err
		}
		if string(data) == oldMagic {
			h.end = oldHeaderSize
		}
	}
	if w.size < h.end {
		return h, &fault{w.size, "the header is cut short"}
	}
	data, err := w.read(0, h.end)
	if err != nil {
		return h, err
	}
	checked := h.end - wordSize
	if h.end == headerSize {
		if string(data[:8]) != magic {
			return h, &fault{0, "the header is wrong"}
		}
		h.mark = binary.LittleEndian.Uint64(data[24:])
	}
	h.number, h.size = binary.LittleEndian.Uint64(data[8:]), int(binary.LittleEndian.Uint64(data[16:]))
	sum := uint64(crc32.Checksum(data[:checked], castagnoli)) // zeros follow it
	switch {
	case binary.LittleEndian.Uint64(data[checked:]) != sum || h.number != number:
		return h, &fault{0, "the header is wrong"}
	case h.size != w.size:
		return h, &fault{w.size, fmt.Sprintf("the file does not have its %d bytes", h.size)}
	}
	return h, nil
}

// footprint is the space that a record takes.
func footprint(size int) int { return wordSize + (size+wordSize-1)&^(wordSize-1) }

// checked is a size with its check.
func checked(size uint32) uint32 {
	check := size * spread >> sizeBits
	return check<<sizeBits | size
}

// word makes the word in front of a record. A record that was copied from
// another place, or has another size, does not match it.
func word(number uint64, at int, size uint32, record []byte) uint64 {
	place := (uint32(number)*spread+uint32(at))*spread + size
	return uint64(crc32.Update(place, castagnoli, record))<<32 | uint64(checked(size))
}

// appendRecord appends a record as it is at its place in a segment.
func appendRecord(buf []byte, number uint64, at int, record []byte) []byte {
	buf = binary.LittleEndian.AppendUint64(buf, word(number, at, uint32(len(record)), record))
	buf = append(buf, record...)
	return append(buf, make([]byte, footprint(len(record))-wordSize-len(record))...)
}

// recordAt returns the record at a place, nil if there is none, or whether
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
