package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// windowSize is how much of a file is read at a time, in bytes. A larger
// record is read at once.
const windowSize = 64 << 10

// window reads a file in pieces, so that it does not need the memory of a
// whole segment.
type window struct {
	file io.ReaderAt
	size int
	buf  []byte // a piece of the file, which begins at from
	from int
}

// read returns n bytes of the file, which must have them. They are valid until
// the next call.
func (w *window) read(at, n int) ([]byte, error) {
	if at < w.from || at+n > w.from+len(w.buf) {
		size := min(max(n, windowSize), w.size-at)
		w.buf, w.from = slices.Grow(w.buf[:0], size)[:size], at
		if n, err := w.file.ReadAt(w.buf, int64(at)); n < size {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	at -= w.from
	return w.buf[at : at+n : at+n], nil
}

// checkHeader checks that the file has the header and the size of the segment.
func checkHeader(w *window, number uint64) error {
	if w.size < headerSize {
		return &fault{w.size, "the header is cut short"}
	}
	data, err := w.read(0, headerSize)
	if err != nil {
		return err
	}
	size := binary.LittleEndian.Uint64(data[16:])
	switch {
	case !bytes.Equal(data, header(number, int(size))):
		return &fault{0, "the header is wrong"}
	case uint64(w.size) != size:
		return &fault{w.size, fmt.Sprintf("the file does not have its %d bytes", size)}
	}
	return nil
}

// firstNonZero returns the place of the first byte between from and to that is
// not zero, and to if there is none.
func (w *window) firstNonZero(from, to int) (int, error) {
	var zeros [4096]byte
	for from < to {
		data, err := w.read(from, min(len(zeros), to-from))
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(data, zeros[:len(data)]) {
			return from + slices.IndexFunc(data, func(b byte) bool { return b != 0 }), nil
		}
		from += len(data)
	}
	return to, nil
}

// walk calls fn with the records of a segment, oldest first. It returns where
// they end and whether the segment has ended there.
func walk(w *window, number uint64, fn func(record []byte) error) (at int, ended bool, err error) {
	for at = headerSize; at+wordSize <= w.size; {
		record, ends, err := recordAt(w, number, at)
		if damage := (*fault)(nil); errors.As(err, &damage) {
			if isTorn, failed := torn(w, at, len(record)); isTorn || failed != nil {
				return at, false, failed
			}
		}
		if err != nil || ends || record == nil {
			return at, ends, err
		}
		size := len(record)
		if err := fn(record); err != nil {
			return at, false, err
		}
		at += footprint(size)
	}
	return at, false, nil
}

// sectorSize is how much a disk writes completely or not at all.
const sectorSize = 512

// torn tells whether the write of a record with a wrong checksum may have been
// incomplete: then one of its sectors still has the zeros of the new file.
func torn(w *window, at, size int) (bool, error) {
	end := at + wordSize + size
	for from := at/sectorSize*sectorSize + sectorSize; from < end; from += sectorSize {
		to := min(from+sectorSize, end)
		if i, err := w.firstNonZero(from, to); err != nil || i == to {
			return err == nil, err
		}
	}
	return false, nil
}

// inspect verifies a segment and returns how many records it has. After them
// a crash leaves at most one incomplete record. Any other data there is
// damage.
func inspect(w *window, number uint64) (records int, ended bool, err error) {
	if err := checkHeader(w, number); err != nil {
		return 0, false, err
	}
	at, ended, err := walk(w, number, func([]byte) error { records++; return nil })
	if err != nil {
		return 0, false, err
	}
	behind := min(at+wordSize, w.size)
	if !ended {
		return records, false, inspectTorn(w, number, behind)
	}
	i, err := w.firstNonZero(behind, w.size)
	if err == nil && i < w.size {
		err = &fault{i, "data follows the end"}
	}
	return records, true, err
}

// inspectTorn looks for a complete record after the last one: then the word of
// a record between them is lost.
func inspectTorn(w *window, number uint64, at int) error {
	for ; at+wordSize <= w.size; at += wordSize {
		i, err := w.firstNonZero(at, w.size)
		if err != nil {
			return err
		}
		if at = i &^ (wordSize - 1); at+wordSize > w.size {
			return nil
		}
		record, ends, err := recordAt(w, number, at)
		if err == nil && (ends || record != nil) {
			return &fault{at, "a record follows a lost one"}
		}
		if damage := (*fault)(nil); err != nil && !errors.As(err, &damage) {
			return err
		}
	}
	return nil
}
