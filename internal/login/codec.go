package login

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrCorrupt is wrapped by the error for a row or a cell that no limiter can
// have written.
var ErrCorrupt = errors.New("corrupt row")

const (
	// cellVersion is the first byte of each value. All numbers are little
	// endian. The length of a list has two bytes, an instant has eight.
	cellVersion = 2

	// maxCell is the largest cell that Limits allow, in bytes.
	maxCell = 42 << 10

	// lastInstant leaves room to add any duration that Limits allow.
	lastInstant = math.MaxInt64 - 2*int64(maxKeep)
)

// reader reads a value. After its end it returns zeros, and bad is true.
type reader struct {
	rest []byte
	bad  bool
}

// readCell returns a reader of a value, which is not empty.
func readCell(value []byte) reader {
	return reader{value[1:], value[0] != cellVersion || len(value) > maxCell}
}

// end returns an error if the value was not valid.
func (r *reader) end() error {
	if r.bad || len(r.rest) > 0 {
		return fmt.Errorf("%w: invalid cell", ErrCorrupt)
	}
	return nil
}

func (r *reader) next(size int) []byte {
	if size > len(r.rest) {
		r.bad, r.rest = true, make([]byte, size)
	}
	next := r.rest[:size]
	r.rest = r.rest[size:]
	return next
}

// length reads how many items of a size follow.
func (r *reader) length(size int) int {
	length := int(binary.LittleEndian.Uint16(r.next(2)))
	if length*size > len(r.rest) {
		r.bad = true
		return 0
	}
	return length
}

// instant reads an instant that is not before another one.
func (r *reader) instant(before int64) int64 {
	at := int64(binary.LittleEndian.Uint64(r.next(8)))
	r.bad = r.bad || at < before || at > lastInstant
	return at
}

// times are instants in nanoseconds since 1970, oldest first.
type times []int64

func (r *reader) times() times {
	t := make(times, r.length(8))
	var before int64
	for i := range t {
		before = r.instant(before)
		t[i] = before
	}
	return t
}

func (t times) appendTo(value []byte) []byte {
	value = binary.LittleEndian.AppendUint16(value, uint16(len(t)))
	for _, at := range t {
		value = binary.LittleEndian.AppendUint64(value, uint64(at))
	}
	return value
}

// after returns the times later than an instant.
func (t times) after(instant int64) times {
	for len(t) > 0 && t[0] <= instant {
		t = t[1:]
	}
	return t
}

func (t times) last() int64 {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1]
}
