//go:build unix

package badgerstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock on a directory that Badger will take, so that
// nobody writes while the directory is inspected. It must be released
// before Badger opens; who comes in between makes Badger fail the same
// way.
func lock(dir string) (release func() error, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		// Closing alone would not do while a process that was just forked
		// still has a copy of the file.
		return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
	}, nil
}
