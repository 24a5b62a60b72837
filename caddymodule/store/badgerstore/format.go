package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// format is the version of a database, and what it knows of the log.
type format struct {
	version string
	// segment is the first segment of the log that is not in the archive.
	segment uint64
	// changes is the number of the last change; see archive.
	changes uint64
}

// Versions of the format. The first had no log. The second had no numbers of
// changes. The third had no overrides, no restrictions of keys and no counts
// of keys. The fourth had no labels of accounts, no reports and no events. The
// fifth had no days of keys, no codes of recent calls and no successes of
// login clients. The rows since the third are valid rows of the sixth.
const (
	versionPlain        = "tollgate 1"
	versionUnconfirmed  = "tollgate 2"
	versionUnrestricted = "tollgate 3"
	versionUnlabelled   = "tollgate 4"
	versionWithoutDays  = "tollgate 5"
	version             = "tollgate 6"
)

// hasLog tells whether a version has a log.
func (f *format) hasLog() bool {
	switch f.version {
	case version, versionWithoutDays, versionUnlabelled, versionUnrestricted, versionUnconfirmed:
		return true
	}
	return false
}

var (
	versionKey = append([]byte{prefixMeta}, "format"...)
	segmentKey = append([]byte{prefixMeta}, "log"...)
	changesKey = append([]byte{prefixMeta}, "changes"...)
	// restoringKey is a row while a restore is not finished.
	restoringKey = append([]byte{prefixMeta}, "restoring"...)
)

// errUnfinished says that a restore runs or has failed.
var errUnfinished = errors.New("a restore to it is not finished: delete the directory and restore again")

// format reads the format. A database without a version is new and must be
// empty.
func (a *archive) format() (f format, err error) {
	err = a.get(versionKey, func(value []byte) error { f.version = string(value); return nil })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return f, a.scan(nil, func([]byte, []byte) error { return damaged("its format is missing") })
	case err != nil:
		return f, fmt.Errorf("reading the format: %w", err)
	case f.version == versionPlain:
		return f, nil
	case !f.hasLog():
		return f, fmt.Errorf("store has format %q, want %q", f.version, version)
	}
	if err := a.get(restoringKey, func([]byte) error { return errUnfinished }); !errors.Is(err, store.ErrNotFound) {
		return f, err
	}
	if f.segment, err = a.number(segmentKey); err != nil {
		return f, damaged("the number of its log: %w", err)
	}
	if f.version != versionUnconfirmed {
		if f.changes, err = a.number(changesKey); err != nil {
			err = damaged("the number of its changes: %w", err)
		}
	}
	return f, err
}

// number reads a row with a number above zero.
func (a *archive) number(key []byte) (number uint64, err error) {
	err = a.get(key, func(value []byte) error {
		n, size := binary.Uvarint(value)
		if size <= 0 || size != len(value) || n == 0 {
			return errCorrupt
		}
		number = n
		return nil
	})
	return number, err
}

func changesRow(number uint64) change {
	return change{key: changesKey, value: binary.AppendUvarint(nil, number)}
}

// formatRows are the rows for a database that has all counts of the segments
// before this one.
func formatRows(segment uint64) []change {
	return []change{
		{key: versionKey, value: []byte(version)},
		{key: segmentKey, value: binary.AppendUvarint(nil, segment)},
	}
}
