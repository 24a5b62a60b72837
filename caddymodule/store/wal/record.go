package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"unsafe"
)

// A segment is a file of fixed size: a header, then records, then zeros.
//
//	magic             8 bytes
//	number            8 bytes; that of the file's name
//	size of the file  8 bytes
//	CRC-32C of these  4 bytes
//	zeros             4 bytes
//
// A record begins at a multiple of 8 bytes. In front of it stands one word
// of 8 bytes, which is stored after the record itself: behind a word that
// is not zero the record is complete. From the low end the word has
//
//	size              21 bits; endMark says that another segment goes on
//	check of the size 11 bits
//	CRC-32C           32 bits; of the record and its place
//
// The size has a check of its own because a wrong one can make an intact
// record look like one that was torn. All numbers are little-endian.
const (
	magic      = "tollwal1"
	headerSize = 32
	wordSize   = 8

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

// header makes the header of a segment.
func header(number uint64, size int) [headerSize]byte {
	var h [headerSize]byte
	copy(h[:], magic)
	binary.LittleEndian.PutUint64(h[8:], number)
	binary.LittleEndian.PutUint64(h[16:], uint64(size))
	binary.LittleEndian.PutUint32(h[24:], crc32.Checksum(h[:24], castagnoli))
	return h
}

// checkHeader checks that a file is the whole segment of that number.
func checkHeader(data []byte, number uint64) error {
	if len(data) < headerSize {
		return &fault{len(data), "the header is cut short"}
	}
	size := binary.LittleEndian.Uint64(data[16:])
	if want := header(number, int(size)); !bytes.Equal(data[:headerSize], want[:]) {
		return &fault{0, "the header is wrong"}
	}
	if uint64(len(data)) != size {
		return &fault{len(data), fmt.Sprintf("the file has not its %d bytes", size)}
	}
	return nil
}

// footprint is the space that a record takes.
func footprint(size int) int { return wordSize + (size+wordSize-1)&^(wordSize-1) }

// checked is a size with its check.
func checked(size uint32) uint32 {
	check := size * spread >> sizeBits
	return check<<sizeBits | size
}

// word makes the word in front of a record. One that was copied from
// elsewhere, or whose size has changed, does not match.
func word(number uint64, at int, size uint32, record []byte) uint64 {
	place := (uint32(number)*spread+uint32(at))*spread + size
	return uint64(crc32.Update(place, castagnoli, record))<<32 | uint64(checked(size))
}

// publish stores a word in one instruction: after the death of the process
// it is there as a whole, with all that was stored before it, or not at
// all.
func publish(data []byte, at int, w uint64) {
	var b [wordSize]byte
	binary.LittleEndian.PutUint64(b[:], w)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&data[at])), binary.NativeEndian.Uint64(b[:]))
}

// recordAt returns the record at a place, nil if there is none, or whether
// the segment ends there.
func recordAt(data []byte, number uint64, at int) (record []byte, ends bool, err error) {
	w := binary.LittleEndian.Uint64(data[at:])
	size := uint32(w) & endMark
	switch {
	case w == 0:
		return nil, false, nil
	case size == endMark && w == word(number, at, endMark, nil):
		return nil, true, nil
	case size == 0 || uint32(w) != checked(size) || int(size) > len(data)-at-wordSize:
		return nil, false, &fault{at, "the size of a record is wrong"}
	}
	record = data[at+wordSize : at+wordSize+int(size) : at+wordSize+int(size)]
	if w != word(number, at, size, record) {
		return record, false, &fault{at, "the checksum of a record is wrong"}
	}
	return record, false, nil
}

// walk calls fn with the records of a segment in their order, and returns
// where they end.
func walk(data []byte, number uint64, fn func(record []byte) error) (at int, ended bool, err error) {
	at = headerSize
	for at+wordSize <= len(data) {
		record, ends, err := recordAt(data, number, at)
		if err != nil && torn(data, at, len(record)) {
			return at, false, nil
		}
		if err != nil || ends || record == nil {
			return at, ends, err
		}
		if err := fn(record); err != nil {
			return at, false, err
		}
		at += footprint(len(record))
	}
	return at, false, nil
}

// sectorSize is what a disk writes as a whole or not at all.
const sectorSize = 512

// torn tells whether a record of which the checksum is wrong may be one
// that was being written when the power went: then a sector of it has
// still the zeros that it was made with.
func torn(data []byte, at, size int) bool {
	end := at + wordSize + size
	for from := at/sectorSize*sectorSize + sectorSize; from < end; from += sectorSize {
		if firstNonZero(data[from:min(from+sectorSize, end)]) < 0 {
			return true
		}
	}
	return false
}

// inspect verifies a segment and returns how many records it has. Behind
// them a crash leaves one that is not complete; whatever else is not zero
// is what damage has left of others.
func inspect(data []byte, number uint64) (records int, ended bool, err error) {
	if err := checkHeader(data, number); err != nil {
		return 0, false, err
	}
	at, ended, err := walk(data, number, func([]byte) error { records++; return nil })
	if err != nil {
		return 0, false, err
	}
	behind := min(at+wordSize, len(data))
	if ended {
		if i := firstNonZero(data[behind:]); i >= 0 {
			return 0, false, &fault{behind + i, "data follows the end"}
		}
		return records, true, nil
	}
	return records, false, inspectTorn(data, number, behind)
}

// inspectTorn looks for a whole record behind the last one: then the word
// of another between them is gone.
func inspectTorn(data []byte, number uint64, at int) error {
	for ; at+wordSize <= len(data); at += wordSize {
		if i := firstNonZero(data[at:]); i < 0 {
			return nil
		} else if at += i &^ (wordSize - 1); at+wordSize > len(data) {
			return nil
		}
		record, ends, err := recordAt(data, number, at)
		if err == nil && (ends || record != nil) {
			return &fault{at, "a record follows one that is gone"}
		}
	}
	return nil
}

// firstNonZero returns the place of the first byte that is not zero, or -1.
func firstNonZero(b []byte) int {
	var zeros [4096]byte
	at := 0
	for len(b)-at >= len(zeros) && bytes.Equal(b[at:at+len(zeros)], zeros[:]) {
		at += len(zeros)
	}
	for ; at < len(b); at++ {
		if b[at] != 0 {
			return at
		}
	}
	return -1
}
