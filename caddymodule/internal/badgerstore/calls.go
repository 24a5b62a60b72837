package badgerstore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// callList is some calls of an account as they are stored, oldest first.
// Pending calls have this form, too: it is small and has no pointers for the
// garbage collector.
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
	e.string(c.Code)
	l.n, l.buf = l.n+1, e.buf
}

func (l callList) decode(account string) ([]store.Record, error) {
	d := decoder{buf: l.buf}
	list := make([]store.Record, l.n)
	for i := range list {
		list[i] = store.Record{
			Account: account, At: d.time(), Key: d.string(), KeyName: d.string(), Endpoint: d.string(),
			Method: d.string(), Path: d.string(), Status: int(d.uint()), Duration: time.Duration(d.int()), Code: d.string(),
		}
	}
	if err := d.end(); err != nil {
		return nil, fmt.Errorf("recent calls: %w", err)
	}
	return list, nil
}

// slotRow is one of the rows that an account's recent calls are stored in.
type slotRow struct {
	number uint64 // 1 more than that of the slot of its list begun before
	calls  callList
}

// maxSlotCalls is the limit of the size of a slot's calls, in bytes. Names
// are short and paths are cut, so they take less.
const maxSlotCalls = 1 << 20

// encodeSlot compresses the calls: they are most of what the archive writes, and
// similar to each other.
func encodeSlot(number uint64, calls []store.Record) []byte {
	var list callList
	for i := range calls {
		list.add(&calls[i])
	}
	e := encoder{make([]byte, 0, 1+2*binary.MaxVarintLen64+s2.MaxEncodedLen(len(list.buf)))}
	e.buf = append(e.buf, rowVersion)
	e.uint(number)
	e.uint(uint64(list.n))
	packed := s2.Encode(e.buf[len(e.buf):cap(e.buf)], list.buf)
	return append(e.buf, packed...) // in place
}

// decodeSlot returns a slot that does not use the memory of value. Its calls
// are not decoded yet.
func decodeSlot(value []byte) (s slotRow, err error) {
	d := newDecoder(value)
	s.number = d.uint()
	s.calls.n = int(min(d.uint(), recentPerSlot))
	size, err := s2.DecodedLen(d.buf)
	if err == nil && d.err == nil && size <= maxSlotCalls {
		s.calls.buf, err = s2.Decode(nil, d.buf)
	}
	if err != nil || d.err != nil || size > maxSlotCalls {
		return s, fmt.Errorf("recent calls: %w", errCorrupt)
	}
	return s, nil
}

// decodeSlots returns the calls of an account that are not too old, newest
// first.
func decodeSlots(account string, slots []slotRow, now time.Time) (list []store.Record, err error) {
	slices.SortFunc(slots, bySlot)
	for _, slot := range slots {
		calls, err := slot.calls.decode(account)
		if err != nil {
			return nil, err
		}
		list = append(list, calls...)
	}
	list = slices.DeleteFunc(list, func(r store.Record) bool { return now.Sub(r.At) > store.RecentFor })
	slices.Reverse(list) // of calls at the same time, the last is the newest
	return store.LastCalls(list), nil
}
