package badgerstore

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
)

// The first byte of a record is the kind of its rows.
const (
	recordCounts = 'c' // a key with its length, and a number
	recordRows   = 'r' // a pb.KVList
	recordBoth   = 'b' // the size of a record of rows, that record, and counts
)

// deleted is the Meta of a row that a record deletes.
var deleted = []byte{1}

// beginCounts begins a record of counts and of some rows.
func beginCounts(buf []byte, rows []change) ([]byte, error) {
	if len(rows) == 0 {
		return append(buf, recordCounts), nil
	}
	record, err := encodeRows(rows)
	return append(binary.AppendUvarint(append(buf, recordBoth), uint64(len(record))), record...), err
}

// appendCount appends a row of a record of counts.
func appendCount(buf []byte, c *ledger.Count) []byte {
	buf = binary.AppendUvarint(buf, uint64(dayEnd+len(c.Holder)+1+len(c.Endpoint)))
	buf = appendCountKey(buf, c.Day, c.Holder, c.Endpoint)
	return binary.AppendUvarint(buf, uint64(c.Used))
}

// encodeRows returns a record of rows.
func encodeRows(group []change) ([]byte, error) {
	rows := &pb.KVList{}
	for _, c := range group {
		row := &pb.KV{Key: c.key, Value: c.value, ExpiresAt: c.expiresAt()}
		if c.value == nil {
			row.Meta = deleted
		}
		rows.Kv = append(rows.Kv, row)
	}
	return proto.MarshalOptions{}.MarshalAppend([]byte{recordRows}, rows)
}

// eachRow calls count with the counts of a record, or row with its rows. The key of
// a count is valid until count returns.
func eachRow(record []byte, count func(key []byte, used uint64), row func(change)) error {
	switch record[0] {
	case recordCounts:
		return eachCount(record[1:], count)
	case recordRows:
		var rows pb.KVList
		if err := proto.Unmarshal(record[1:], &rows); err != nil {
			return fmt.Errorf("%w: %w", errCorrupt, err)
		}
		for _, r := range rows.Kv {
			c := change{key: r.Key, expires: expiresAt(r.ExpiresAt)}
			if !bytes.Equal(r.Meta, deleted) {
				c.value = append([]byte{}, r.Value...)
			}
			row(c)
		}
		return nil
	case recordBoth:
		length, size := binary.Uvarint(record[1:])
		if size <= 0 || length == 0 || length > uint64(len(record)-1-size) {
			return errCorrupt
		}
		rest := record[1+size:]
		if err := eachRow(rest[:length], count, row); err != nil {
			return err
		}
		return eachCount(rest[length:], count)
	}
	return errCorrupt
}

func eachCount(record []byte, fn func(key []byte, used uint64)) error {
	for len(record) > 0 {
		length, size := binary.Uvarint(record)
		if size <= 0 || length > uint64(len(record)-size) {
			return errCorrupt
		}
		key, rest := record[size:size+int(length)], record[size+int(length):]
		used, size := binary.Uvarint(rest)
		if size <= 0 || len(key) < dayEnd || key[0] != prefixCount || used > uint64(store.Unlimited) {
			return errCorrupt
		}
		fn(key, used)
		record = rest[size:]
	}
	return nil
}

// lastRows is the last value of each row in a segment.
type lastRows struct {
	index   map[string]int // of a key
	changes []change
}

// count adds a count. A counter occurs thousands of times, so its key is copied
// only once.
func (l *lastRows) count(key []byte, used uint64) {
	i, known := l.index[string(key)]
	if !known {
		i = l.add(bytes.Clone(key))
	}
	l.changes[i] = countRow(l.changes[i].key, used)
}

// row adds a row.
func (l *lastRows) row(c change) {
	i, known := l.index[string(c.key)]
	if !known {
		i = l.add(c.key)
	}
	l.changes[i] = c
}

func (l *lastRows) add(key []byte) int {
	if l.index == nil {
		l.index = map[string]int{}
	}
	l.index[string(key)] = len(l.changes)
	l.changes = append(l.changes, change{key: key})
	return len(l.changes) - 1
}
