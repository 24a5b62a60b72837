//go:build unix

package system

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NotKept are the promises of the store that this system cannot keep.
var NotKept []string

// LockDir takes the lock that Badger takes for a directory. If another process
// has it, the error is ErrLocked.
func LockDir(dir string) (release func() error, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		// Close alone does not release the lock while a process that was just
		// forked has a copy of the file.
		return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
	}, nil
}

// SyncDir makes the names in a directory survive a loss of power.
func SyncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

// Touch sets the times of a directory to now. It fails if the file system is
// read-only.
func Touch(dir string) error { return unix.Utimes(dir, nil) }

// FreeSpace returns the bytes that an ordinary user can still write.
func FreeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	blocks, size := available(&s)
	return uint64(max(0, blocks)) * size, nil
}
