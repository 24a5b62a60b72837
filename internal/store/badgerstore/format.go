package badgerstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// format is what a database knows of itself and of the log.
type format struct {
	version string // empty if the database is new
	// segment is the first segment of the log that is not in the archive.
	segment uint64
}

// version is the version of the format. A change of the rows needs a new one.
const version = "tollgate 13"

var (
	versionKey = append([]byte{prefixMeta}, "format"...)
	segmentKey = append([]byte{prefixMeta}, "log"...)
	keptPrefix = append([]byte{prefixMeta}, "kept "...)
	// restoringKey is a row while a restore is not finished.
	restoringKey = append([]byte{prefixMeta}, "restoring"...)
)

// errUnfinished says that a restore runs or has failed.
var errUnfinished = errors.New("a restore to it is not finished: delete the directory and restore again")

// format reads the format. A database without a version is new and must be
// empty.
func (a *archive) format() (f format, err error) {
	found, err := a.get(versionKey)
	if err != nil {
		return f, fmt.Errorf("reading the format: %w", err)
	}
	if found == nil {
		return f, a.scan(nil, func([]byte, []byte) error { return damaged("its format is missing") })
	}
	if f.version = string(found); f.version != version {
		return f, fmt.Errorf("store has format %q, want %q", f.version, version)
	}
	if unfinished, err := a.get(restoringKey); err != nil || unfinished != nil {
		return f, cmp.Or(err, errUnfinished)
	}
	segment, err := a.get(segmentKey)
	if err != nil {
		return f, err
	}
	if f.segment, _ = binary.Uvarint(segment); f.segment == 0 {
		return f, damaged("the number of its log is missing")
	}
	return f, a.loadKept()
}

// keptRows is how many of the last transactions that are synced in Badger have a
// row with their number, each the place of another one.
const keptRows = 4096

func keptRow(number uint64) change {
	return change{key: binary.BigEndian.AppendUint16(bytes.Clone(keptPrefix), uint16(number%keptRows)), value: binary.AppendUvarint(nil, number)}
}

// loadKept reads the number of the last transaction that was synced in Badger. It
// refuses a database that lacks one of the keptRows before, because Badger has lost
// a table or a part of a log: our log has no longer what was in it.
func (a *archive) loadKept() error {
	var numbers []uint64
	err := a.scan(keptPrefix, func(_, value []byte) error {
		number, _ := binary.Uvarint(value)
		numbers = append(numbers, number)
		return nil
	})
	if err != nil || len(numbers) == 0 {
		return cmp.Or(err, damaged("the numbers of its writes are missing"))
	}
	a.kept = slices.Max(numbers)
	if missing := a.kept - slices.Min(numbers) + 1 - uint64(len(numbers)); missing > 0 || uint64(len(numbers)) < min(a.kept, keptRows) {
		return damaged("some of its last writes are missing")
	}
	return nil
}

// formatRows are the rows for a database that has all counts of the segments
// before this one.
func formatRows(segment uint64) []change {
	return []change{
		{key: versionKey, value: []byte(version)},
		{key: segmentKey, value: binary.AppendUvarint(nil, segment)},
	}
}
