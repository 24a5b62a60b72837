package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// format is what a database says of itself.
type format struct {
	version string
	// segment is the first segment of the log that is not in the archive.
	segment uint64
}

// Versions of the format. The first one had all counts in the archive and
// no log beside it.
const (
	versionPlain = "tollgate 1"
	version      = "tollgate 2"
)

var (
	versionKey = append([]byte{prefixMeta}, "format"...)
	segmentKey = append([]byte{prefixMeta}, "log"...)
)

// format reads what the database says. One without a version is new and
// has to be empty.
func (a *archive) format() (f format, err error) {
	err = a.get(versionKey, func(value []byte) error { f.version = string(value); return nil })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return f, a.scan(nil, func([]byte, []byte) error { return damaged("its format is missing") })
	case err != nil:
		return f, fmt.Errorf("reading the format: %w", err)
	case f.version == versionPlain:
		return f, nil
	case f.version != version:
		return f, fmt.Errorf("store has format %q, want %q", f.version, version)
	}
	err = a.get(segmentKey, func(value []byte) error {
		n, size := binary.Uvarint(value)
		if size <= 0 || size != len(value) || n == 0 {
			return errCorrupt
		}
		f.segment = n
		return nil
	})
	if err != nil {
		err = damaged("the number of its log: %w", err)
	}
	return f, err
}

// formatRows are the rows that say that the segments before this one are
// in the archive.
func formatRows(segment uint64) []change {
	return []change{
		{key: versionKey, value: []byte(version)},
		{key: segmentKey, value: binary.AppendUvarint(nil, segment)},
	}
}
