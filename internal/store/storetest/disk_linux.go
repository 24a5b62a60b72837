package storetest

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk is a file system that a test can fill. It has more space than the
// reserve of a store, and takes memory only for what is written.
type SmallDisk struct{ Dir string }

// diskSize is the size of a SmallDisk and of an Ext4, in bytes.
const diskSize = 512 << 20

// NeedRoot skips a test that mounts a file system unless it runs as root. In
// CI it fails the test instead.
func NeedRoot(t *testing.T) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("mounting a file system requires root")
	default:
		t.Skip("mounting a file system requires root")
	}
}

// NewSmallDisk mounts a SmallDisk until the test ends. It requires root.
func NewSmallDisk(t *testing.T) SmallDisk {
	t.Helper()
	NeedRoot(t)
	dir := t.TempDir()
	if err := resize(dir, diskSize, 0); err != nil {
		t.Fatalf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() { Unmount(t, dir) })
	return SmallDisk{dir}
}

// Fill shrinks the disk so that it has that much free space, in bytes, and
// returns a function that undoes it.
func (d SmallDisk) Fill(t *testing.T, leave uint64) (empty func()) {
	t.Helper()
	if err := shrink(d.Dir, leave); err != nil {
		t.Fatalf("filling the disk: %v", err)
	}
	return func() {
		if err := resize(d.Dir, diskSize, unix.MS_REMOUNT); err != nil {
			t.Fatalf("emptying the disk: %v", err)
		}
	}
}

// shrink makes a tmpfs have that much free space. It tries again if blocks are
// written between its two calls.
func shrink(dir string, leave uint64) (err error) {
	for range 100 {
		var stat unix.Statfs_t
		if err = unix.Statfs(dir, &stat); err == nil {
			err = resize(dir, (stat.Blocks-stat.Bfree)*uint64(stat.Bsize)+leave, unix.MS_REMOUNT)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// resize mounts a tmpfs of a size, or sets its size.
func resize(dir string, size uint64, flags uintptr) error {
	return unix.Mount("tmpfs", dir, "tmpfs", flags, "size="+strconv.FormatUint(size, 10))
}
