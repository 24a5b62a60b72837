package system

import "golang.org/x/sys/unix"

func available(s *unix.Statfs_t) (blocks int64, size uint64) {
	return s.F_bavail, uint64(s.F_bsize)
}
