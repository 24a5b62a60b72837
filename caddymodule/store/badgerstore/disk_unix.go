//go:build unix

package badgerstore

import "golang.org/x/sys/unix"

// freeSpace returns the bytes that an ordinary user can still write.
func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil //nolint:unconvert // the types differ between systems
}

// touch sets the times of a directory to now.
func touch(dir string) error { return unix.Utimes(dir, nil) }
