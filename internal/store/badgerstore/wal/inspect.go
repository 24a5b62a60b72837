package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"
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
		return &fault{at: w.size, reason: "the header is cut short"}
	}
	data, err := w.read(0, headerSize)
	if err != nil {
		return err
	}
	size := binary.LittleEndian.Uint64(data[16:])
	switch {
	case !bytes.Equal(data, header(number, int(size))):
		return &fault{reason: "the header is wrong"}
	case uint64(w.size) != size:
		return &fault{at: w.size, reason: fmt.Sprintf("the file does not have its %d bytes", size)}
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

// walk calls fn with the entries of a segment, oldest first, and returns where
// they end.
func walk(w *window, number uint64, fn func(entry) error) (at int, why *fault, err error) {
	for at = headerSize; ; {
		e, err := entryAt(w, number, at)
		if errors.As(err, &why) {
			return at, why, nil
		}
		if err != nil {
			return at, nil, err
		}
		at += footprint(len(e.record))
		if err := fn(e); err != nil || e.ends {
			return at, nil, err
		}
	}
}

// inspect verifies a segment. Behind the last entry there are zeros, or what a
// loss of power has left of entries that were not on the disk yet. Anything else
// is damage.
func (s *Segment) inspect(w *window) error {
	if err := checkHeader(w, s.Number); err != nil {
		return err
	}
	last := mark(0)
	at, why, err := walk(w, s.Number, func(e entry) error {
		last = e.mark
		if s.ended = e.ends; len(e.record) > 0 {
			s.records++
		}
		return nil
	})
	if err != nil {
		return err
	}
	data, err := w.firstNonZero(at, w.size)
	switch {
	case err != nil || data == w.size:
		return err
	case s.ended:
		return &fault{at: data, reason: "data follows the end"}
	}
	s.torn = &Torn{File: filepath.Base(s.path), At: at, Since: last.time()}
	return s.torn.inspect(w, s.Number, why)
}

// Torn is the end of a segment that was not on the disk yet when the power was
// lost, and is not whole.
type Torn struct {
	File string
	At   int // the byte at which the end begins
	// Since is when the last record before it was written, and Until the last one
	// in it that can be read. Each is zero if there is none.
	Since, Until time.Time
}

// inspect looks for entries in the end. One that tells that the end was on the
// disk proves damage. So does a record in the next segment: see checkSequence.
func (t *Torn) inspect(w *window, number uint64, why *fault) error {
	for at := t.At + wordSize; ; at += wordSize {
		data, err := w.firstNonZero(at, w.size)
		if at = data &^ (wordSize - 1); err != nil || at+headSize > w.size {
			return err
		}
		e, err := entryAt(w, number, at)
		switch damage := (*fault)(nil); {
		case errors.As(err, &damage):
		case err != nil:
			return err
		case e.mark.synced() > t.At:
			why.reason += ", and it was on the disk"
			return why
		default:
			t.Until = e.mark.time()
		}
	}
}
