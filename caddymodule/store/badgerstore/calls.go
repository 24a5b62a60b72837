package badgerstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// callList is an account's calls as they are stored, oldest first. Calls
// wait in this form: there are thousands of them, and the garbage
// collector has nothing to look for in it.
type callList struct {
	n   int
	buf []byte
}

func (l *callList) add(c *store.Record) {
	e := encoder{l.buf}
	e.time(c.At)
	e.string(c.Key)
	e.string(c.KeyName)
	e.string(c.Endpoint)
	e.string(c.Method)
	e.string(c.Path)
	e.uint(uint64(c.Status))
	e.int(int64(c.Duration))
	l.n, l.buf = l.n+1, e.buf
}

// join appends another list.
func (l *callList) join(other callList) {
	l.n, l.buf = l.n+other.n, append(l.buf, other.buf...)
}

// cut takes up to n of the first calls off the list, none if n is below
// zero.
func (l *callList) cut(n int) (first callList) {
	n = max(0, min(n, l.n))
	d := decoder{buf: l.buf}
	for range n {
		d.skipCall()
	}
	size := len(l.buf) - len(d.buf)
	first = callList{n, l.buf[:size:size]}
	l.n, l.buf = l.n-n, l.buf[size:]
	return first
}

func (l callList) decode(account string) ([]store.Record, error) {
	d := decoder{buf: l.buf}
	list := make([]store.Record, l.n)
	for i := range list {
		list[i] = store.Record{
			Account: account, At: d.time(), Key: d.string(), KeyName: d.string(), Endpoint: d.string(),
			Method: d.string(), Path: d.string(), Status: int(d.uint()), Duration: time.Duration(d.int()),
		}
	}
	if err := d.end(); err != nil {
		return nil, fmt.Errorf("recent calls: %w", err)
	}
	return list, nil
}

// skipCall reads a call and keeps nothing of it.
func (d *decoder) skipCall() {
	d.int()
	for range 5 {
		d.bytes(d.uint())
	}
	d.uint()
	d.int()
}

// slotRow is one slot of an account's recent calls.
type slotRow struct {
	number uint64 // rises with every slot that is begun
	calls  callList
}

// packedSlot is the first byte of a slot whose calls are compressed: they
// are most of what the archive writes, and repeat each other. Slots with
// rowVersion, of older stores, are plain.
const packedSlot = 2

// maxSlotCalls is the largest size of a slot's calls, in bytes. Names are
// short and paths are cut, so it is more than they take.
const maxSlotCalls = 1 << 20

func encodeSlot(s slotRow) []byte {
	e := encoder{make([]byte, 0, 1+2*binary.MaxVarintLen64+s2.MaxEncodedLen(len(s.calls.buf)))}
	e.buf = append(e.buf, packedSlot)
	e.uint(s.number)
	e.uint(uint64(s.calls.n))
	packed := s2.Encode(e.buf[len(e.buf):cap(e.buf)], s.calls.buf)
	return append(e.buf, packed...) // onto itself
}

// decodeSlot keeps a part of value.
func decodeSlot(value []byte) (slotRow, error) {
	packed := len(value) > 0 && value[0] == packedSlot
	d := &decoder{}
	if packed {
		d.buf = value[1:]
	} else {
		d = newDecoder(value)
	}
	s := slotRow{number: d.uint()}
	s.calls.n = int(min(d.uint(), recentPerSlot))
	if packed {
		d.unpack()
	}
	s.calls.buf = d.buf[:len(d.buf):len(d.buf)]
	for range s.calls.n {
		d.skipCall()
	}
	if err := d.end(); err != nil {
		return s, fmt.Errorf("recent calls: %w", err)
	}
	return s, nil
}

// unpack replaces the rest of a row with what it was compressed from.
func (d *decoder) unpack() {
	if size, err := s2.DecodedLen(d.buf); err != nil || size > maxSlotCalls {
		d.err = errCorrupt
		return
	}
	plain, err := s2.Decode(nil, d.buf)
	if d.buf = plain; err != nil {
		d.err = errCorrupt
	}
}
