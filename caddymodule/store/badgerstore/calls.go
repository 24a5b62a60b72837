package badgerstore

import (
	"encoding/binary"
	"fmt"
	"time"

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

func encodeSlot(s slotRow) []byte {
	e := encoder{make([]byte, 0, 1+2*binary.MaxVarintLen64+len(s.calls.buf))}
	e.buf = append(e.buf, rowVersion)
	e.uint(s.number)
	e.uint(uint64(s.calls.n))
	e.buf = append(e.buf, s.calls.buf...)
	return e.buf
}

// decodeSlot keeps a part of value.
func decodeSlot(value []byte) (slotRow, error) {
	d := newDecoder(value)
	s := slotRow{number: d.uint()}
	s.calls.n = int(min(d.uint(), recentPerSlot))
	s.calls.buf = d.buf[:len(d.buf):len(d.buf)]
	for range s.calls.n {
		d.skipCall()
	}
	if err := d.end(); err != nil {
		return s, fmt.Errorf("recent calls: %w", err)
	}
	return s, nil
}
