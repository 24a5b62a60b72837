package badgerstore

import (
	"fmt"
)

// disk watches the space of a directory's file system.
type disk struct {
	dir     string
	reserve uint64
}

// openShare is the part of the reserve that Badger may need to open or
// to close: it writes out memtables and begins new files.
const openShare = 4

// check refuses when less than the reserve is free. It is one system
// call, cheap beside the write that it precedes.
func (d *disk) check() error { return d.checkFree(d.reserve) }

// checkOpen refuses when it is not safe to open or close the database.
func (d *disk) checkOpen() error { return d.checkFree(d.reserve / openShare) }

func (d *disk) checkFree(least uint64) error {
	free, err := freeSpace(d.dir)
	if err != nil {
		return fmt.Errorf("asking for free space: %w", err)
	}
	if free < least {
		return fmt.Errorf("%d MiB are free on the disk of %s, less than %d MiB", free>>20, d.dir, least>>20)
	}
	return nil
}
