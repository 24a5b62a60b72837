package badgerstore

import (
	"fmt"
	"time"
)

// disk watches the space of a directory's file system.
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

// lookEvery is how old the answer of checkRecently may be. Calls write to
// blocks that are theirs already; at any rate they need less in that time
// than a thousandth of the reserve.
const lookEvery = 5 * time.Millisecond

// check refuses when less than the reserve is free.
func (d *disk) check() error { return d.checkFree(d.reserve) }

// checkRecently is check for whoever asks thousands of times a second. A
// disk that was full is looked at each time. It must not be called by two
// goroutines at once.
func (d *disk) checkRecently() error {
	if d.found == nil && time.Since(d.looked) < lookEvery {
		return nil
	}
	d.found = d.check()
	d.looked = time.Now()
	return d.found
}

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
