package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// The write-ahead log of a memtable of Badger 4 has a header of 20 bytes,
// entries, then zeros. The first 8 bytes of the header are the id of the
// encryption key, here 0. An entry is
//
//	meta, user meta             1 byte each
//	key length, value length,
//	expiry                      uvarints
//	key                         ends with 8 bytes of its version
//	value
//	CRC-32C of all that         4 bytes, big-endian
//
// The entries of a transaction carry walTxn and its version, and the one
// that completes it carries walTxnEnd and has the version as its value,
// in decimal.
const (
	walHeader      = 20
	walKeyID       = 8
	maxEntryHeader = 22
	maxEntry       = maxEntryHeader + 1<<16 + maxValue + crc32.Size

	walTxn    = 1 << 6
	walTxnEnd = 1 << 7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// inspectWALs reads the write-ahead logs as Badger does, and returns the newest
// version in each. Badger cuts a log at the first entry that it cannot read, so
// a flipped bit costs everything written after it. That is accepted only for
// what a crash leaves: one incomplete entry or transaction, then zeros.
// inspectWALs removes empty logs, on which Badger fails. A crash leaves them
// when a log is created, and when its rows are in a table.
func inspectWALs(dir string) (versions []uint64, err error) {
	paths, err := list(dir, ".mem")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil && len(data) == 0 {
			err = os.Remove(path)
		}
		if err != nil {
			return nil, err
		}
		if len(data) == 0 {
			continue
		}
		version, end, err := inspectWAL(data)
		if err != nil {
			return nil, damaged("%s: %w; its last complete transaction ends at byte %d of %d", filepath.Base(path), err, end, len(data))
		}
		versions = append(versions, version)
	}
	return versions, nil
}

// inspectWAL returns the newest complete version in a log, and where its last
// complete transaction ends: a damaged log can be cut there.
func inspectWAL(data []byte) (newest uint64, end int, err error) {
	if len(data) < walHeader {
		return 0, 0, errors.New("the header is cut short")
	}
	if lastNonZero(data[:walKeyID]) >= 0 {
		return 0, 0, errors.New("invalid header")
	}
	end = walHeader
	at, txn := end, uint64(0) // an entry begins at at; txn is the version of an incomplete transaction
	for {
		e, ok := parseEntry(data[at:])
		if !ok {
			break
		}
		at += e.size
		switch {
		case e.meta&walTxn != 0 && (txn == 0 || txn == e.version):
			txn = e.version
		case e.meta&walTxnEnd != 0 && txn == e.ends:
			newest, txn, end = max(newest, txn), 0, at
		case e.meta&(walTxn|walTxnEnd) == 0 && txn == 0:
			newest, end = max(newest, e.version), at
		default:
			return 0, end, fmt.Errorf("the entry at byte %d does not belong to its transaction", at-e.size)
		}
	}
	if at == len(data) {
		if end != at {
			return 0, end, errors.New("the file is cut short")
		}
		return newest, end, nil
	}
	if err := inspectTail(data[at:]); err != nil {
		return 0, end, fmt.Errorf("at byte %d, %w", at, err)
	}
	return newest, end, nil
}

// inspectTail refuses what a crash cannot have left after the last readable
// entry. A process that dies while it writes leaves a part of one entry, and
// zeros.
func inspectTail(tail []byte) error {
	last := lastNonZero(tail)
	switch {
	case last < 0:
		return nil
	case last >= maxEntry:
		return errors.New("an entry cannot be read and data follows it")
	case len(tail) < maxEntry: // Badger extends the file before it writes
		return errors.New("the file is cut short")
	case !torn(tail[:last+1]):
		return errors.New("an entry that is complete cannot be read")
	}
	for i := 1; i <= last; i++ {
		if _, ok := parseEntry(tail[i:]); ok {
			return errors.New("an entry cannot be read and another follows it")
		}
	}
	return nil
}

// torn tells whether an entry is incomplete. Processors copy a short entry from
// its beginning, and the aligned middle of a long one first: a long entry can
// have its end and a hole, or no beginning.
func torn(entry []byte) bool {
	const short, hole, head = 256, 32, 64
	keyAt, keySize, valueSize, ok := entryHeader(entry)
	if !ok || keySize == 0 {
		first := bytes.IndexFunc(entry, func(r rune) bool { return r != 0 })
		return len(entry) < maxEntryHeader || (first >= 3 && first < head)
	}
	size := keyAt + keySize + valueSize + crc32.Size
	return len(entry) < size || (len(entry) == size && size > short && bytes.Contains(entry, make([]byte, hole)))
}

// lastNonZero returns the place of the last byte that is not zero, or -1.
func lastNonZero(b []byte) int {
	var zeros [512]byte
	for len(b) >= len(zeros) && bytes.Equal(b[len(b)-len(zeros):], zeros[:]) {
		b = b[:len(b)-len(zeros)]
	}
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0 {
			return i
		}
	}
	return -1
}

// walEntry is an entry with a valid checksum.
type walEntry struct {
	meta    byte
	size    int
	version uint64
	ends    uint64 // the version that it completes
}

func parseEntry(b []byte) (e walEntry, ok bool) {
	keyAt, keySize, valueSize, ok := entryHeader(b)
	end := keyAt + keySize + valueSize
	if !ok || keySize < 8 || end+crc32.Size > len(b) ||
		crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return e, false
	}
	e = walEntry{meta: b[0], size: end + crc32.Size}
	e.version = math.MaxUint64 - binary.BigEndian.Uint64(b[keyAt+keySize-8:])
	if e.meta&walTxnEnd != 0 {
		n, err := strconv.ParseUint(string(b[keyAt+keySize:end]), 10, 64)
		if err != nil {
			return e, false
		}
		e.ends = n
	}
	return e, true
}

// entryHeader reads the lengths at the beginning of an entry.
func entryHeader(b []byte) (keyAt, keySize, valueSize int, ok bool) {
	if len(b) < 2 {
		return 0, 0, 0, false
	}
	at := 2
	var fields [3]uint64
	for i := range fields {
		v, n := binary.Uvarint(b[at:])
		if n <= 0 {
			return 0, 0, 0, false
		}
		fields[i] = v
		at += n
	}
	if fields[0] > 1<<16 || fields[1] >= maxValue {
		return 0, 0, 0, false
	}
	return at, int(fields[0]), int(fields[1]), true
}
