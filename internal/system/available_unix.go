//go:build unix && !openbsd

package system

import "golang.org/x/sys/unix"

// available returns the free blocks and their size. On BSD, the blocks are
// negative while the administrator uses those that the system keeps back.
func available(s *unix.Statfs_t) (blocks int64, size uint64) {
	return int64(s.Bavail), uint64(s.Bsize) // the types differ between systems
}
