package badgerstore

import (
	"fmt"
	"time"
)

// disk watches the file system of a directory: its space, and whether it
// takes changes.
type disk struct {
	dir     string
	reserve uint64

	// What checkRecently found, and when.
	looked time.Time
	found  error
}

// openShare is the part of the reserve that Badger may need to open or
// to close: it writes out memtables and begins new files.
const openShare = 4

// lookEvery is how old the answer of checkRecently may be. Calls write less
// in that time than a thousandth of the reserve.
const lookEvery = 5 * time.Millisecond

// check refuses when Badger must not write: less than the reserve is free,
// or the file system takes no changes.
func (d *disk) check() error { return d.checkWritable(d.reserve) }

// checkOpen refuses when it is not safe to open or close the database.
func (d *disk) checkOpen() error { return d.checkWritable(d.reserve / openShare) }

// checkRecently refuses when less than the reserve is free. It looks again
// after lookEvery, and each time while the disk is full. It must not be
// called by two goroutines at once.
func (d *disk) checkRecently() error {
	if d.found == nil && time.Since(d.looked) < lookEvery {
		return nil
	}
	d.found = d.checkFree(d.reserve)
	d.looked = time.Now()
	return d.found
}

// checkWritable is checkFree, and changes the time of the directory. A file
// system that an error has made read-only need not show that in its flags.
// Its answer to Badger, which writes through mapped files, is a SIGBUS that
// ends the process; its answer to this is an error.
func (d *disk) checkWritable(least uint64) error {
	if err := touch(d.dir); err != nil {
		return fmt.Errorf("the file system of %s takes no changes: %w", d.dir, err)
	}
	return d.checkFree(least)
}

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
