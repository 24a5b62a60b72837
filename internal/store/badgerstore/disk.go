package badgerstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/system"
)

// disk checks the file system of a directory: its free space, and whether it
// can be written.
type disk struct {
	dir     string
	reserve uint64

	// The last check of checkRecently and its result.
	checked time.Time
	result  error
}

// makeDir makes a directory and those above it unless they exist, and their names
// are on the disk then.
func makeDir(dir string) error {
	var made []string
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, at)
	}
	err := os.MkdirAll(dir, 0o700)
	for _, at := range made {
		err = cmp.Or(err, system.SyncDir(filepath.Dir(at)))
	}
	return err
}

// openShare is the part of the reserve that Badger may need to open or to
// close, when it flushes memtables and creates files: a quarter.
const openShare = 4

// checkEvery is how old the result of checkRecently may be. Calls write less
// than a thousandth of the reserve in that time.
const checkEvery = 5 * time.Millisecond

// check returns why Badger must not write: less than the reserve is free, or
// the file system is read-only.
func (d *disk) check() error { return d.checkWritable(d.reserve) }

// checkOpen returns why the database must not be opened or closed.
func (d *disk) checkOpen() error { return d.checkWritable(d.reserve / openShare) }

// checkRecently returns an error if less than the reserve is free. It checks
// again after checkEvery, and each time while the disk is full. It must not be
// called concurrently.
func (d *disk) checkRecently() error {
	if d.result == nil && time.Since(d.checked) < checkEvery {
		return nil
	}
	d.result = d.checkFree(d.reserve)
	d.checked = time.Now()
	return d.result
}

// checkWritable is checkFree, and also changes the time of the directory. That
// fails on a file system that an error has made read-only, which its flags need
// not show. Badger writes through mapped files, and would end the process with
// a SIGBUS there.
func (d *disk) checkWritable(least uint64) error {
	if err := system.Touch(d.dir); err != nil {
		return fmt.Errorf("the file system of %s takes no changes: %w", d.dir, err)
	}
	return d.checkFree(least)
}

func (d *disk) checkFree(least uint64) error {
	free, err := system.FreeSpace(d.dir)
	if err != nil {
		return fmt.Errorf("asking for free space: %w", err)
	}
	if free < least {
		return fmt.Errorf("%d MiB are free on the disk of %s, less than %d MiB", free>>20, d.dir, least>>20)
	}
	return nil
}
