package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// A segment is a file of fixed size: a header, then records, then zeros.
//
//	magic             8 bytes
//	number            8 bytes; that of the file's name
//	size of the file  8 bytes
//	CRC-32C of these  4 bytes
//	zeros             4 bytes
//
// A record begins at a multiple of 8 bytes, after a word and a mark of 8 bytes
// each. From the low end the word has
//
//	size              21 bits; endMark if the segment ends here
//	check of the size 11 bits
//	CRC-32C           32 bits; of the mark, the record, its padding and its place
//
// The size has its own check because a wrong size can make an intact record
// look like a torn one. All numbers are little-endian.
const (
	magic      = "tollwal2"
	headerSize = 32
	wordSize   = 8
	headSize   = 2 * wordSize // of a record

	sizeBits = 21
	endMark  = 1<<sizeBits - 1
)

// spread makes adjacent numbers differ in many bits.
const spread = 0x9e3779b1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mark tells how far its segment was on the disk when a record was written, and
// when that was. From the low end it has the place in words, and the time in
// milliseconds since 1970.
type mark uint64

const placeBits = 22

func newMark(now time.Time, synced int) mark {
	return mark(now.UnixMilli())<<placeBits | mark(synced/wordSize)
}

// synced is the place up to which the segment was on the disk.
func (m mark) synced() int { return int(m&(1<<placeBits-1)) * wordSize }

// time is when it was written, zero without a mark.
func (m mark) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m >> placeBits))
}

// ErrDamaged says that a segment is damaged or missing.
var ErrDamaged = errors.New("log is damaged")

// fault is damage of a segment, or at a place in it. It is ErrDamaged.
type fault struct {
	file   string
	at     int // 0 for the whole file
	reason string
}

func (f *fault) Error() string {
	if f.at == 0 {
		return f.file + ": " + f.reason
	}
	return fmt.Sprintf("%s: byte %d: %s", f.file, f.at, f.reason)
}

func (f *fault) Is(target error) bool { return target == ErrDamaged }

// header returns the header of a segment.
func header(number uint64, size int) []byte {
	h := []byte(magic)
	h = binary.LittleEndian.AppendUint64(h, number)
	h = binary.LittleEndian.AppendUint64(h, uint64(size))
	return binary.LittleEndian.AppendUint64(h, uint64(crc32.Checksum(h, castagnoli)))
}

// footprint is the space that a record takes, in bytes.
func footprint(size int) int { return headSize + (size+wordSize-1)&^(wordSize-1) }

// checked returns a size with its check.
func checked(size uint32) uint32 {
	check := size * spread >> sizeBits
	return check<<sizeBits | size
}

// word returns the word before a mark and a record with its padding, all in data. It does not
// match a record that was copied from another place or has another size.
func word(number uint64, at int, size uint32, data []byte) uint64 {
	place := (uint32(number)*spread+uint32(at))*spread + size
	return uint64(crc32.Update(place, castagnoli, data))<<32 | uint64(checked(size))
}

// appendRecord appends a record with its head and padding. The end of a segment
// is a record without content whose size is endMark.
func appendRecord(buf []byte, number uint64, at int, size uint32, m mark, record []byte) []byte {
	begin := len(buf)
	buf = binary.LittleEndian.AppendUint64(buf, 0)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(m))
	buf = append(buf, record...)
	buf = append(buf, make([]byte, footprint(len(record))-headSize-len(record))...)
	binary.LittleEndian.PutUint64(buf[begin:], word(number, at, size, buf[begin+wordSize:]))
	return buf
}

// entry is what a segment has at a place.
type entry struct {
	mark   mark
	record []byte // empty if the mark is all
	ends   bool   // the segment ends here
}

// entryAt returns the entry at a place, or a fault if there is none.
func entryAt(w *window, number uint64, at int) (e entry, err error) {
	if at+headSize > w.size {
		return e, &fault{at: at, reason: "there is no space for a record"}
	}
	data, err := w.read(at, headSize)
	if err != nil {
		return e, err
	}
	found, size := binary.LittleEndian.Uint64(data), 0
	if e.ends = uint32(found) == checked(endMark); !e.ends {
		size = int(uint32(found) & endMark)
		if uint32(found) != checked(uint32(size)) || footprint(size) > w.size-at {
			return e, &fault{at: at, reason: "the size of a record is wrong"}
		}
	}
	if data, err = w.read(at+wordSize, footprint(size)-wordSize); err != nil {
		return e, err
	}
	if found != word(number, at, uint32(found)&endMark, data) {
		return e, &fault{at: at, reason: "the checksum of a record is wrong"}
	}
	e.mark, e.record = mark(binary.LittleEndian.Uint64(data)), data[wordSize:][:size]
	return e, nil
}
