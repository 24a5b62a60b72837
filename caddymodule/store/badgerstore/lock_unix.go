//go:build unix

package badgerstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock that Badger takes, so that no other process writes while
// the directory is inspected. Release it before Badger opens. If another
// process takes it in between, Badger fails with the same error.
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
		// Close alone does not release the lock while a process that was just
		// forked has a copy of the file.
		return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
	}, nil
}
