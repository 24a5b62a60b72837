package storetest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// SmallDisk is a file system of 64 MiB that a test can fill.
type SmallDisk struct{ Dir string }

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
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatalf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return SmallDisk{dir}
}

// Fill fills the disk up to leave free bytes, and returns a function that
// deletes its file.
func (d SmallDisk) Fill(t *testing.T, leave uint64) (empty func()) {
	t.Helper()
	path := filepath.Join(d.Dir, "ballast")
	err := d.fill(path, leave)
	// An open store may have allocated blocks in between.
	for again := 0; again < 100 && errors.Is(err, unix.ENOSPC); again++ {
		time.Sleep(20 * time.Millisecond)
		err = d.fill(path, leave)
	}
	if err != nil {
		t.Fatalf("filling the disk: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatalf("emptying the disk: %v", err)
		}
	}
}

// fill writes a file that leaves that many bytes, or no file.
func (d SmallDisk) fill(path string, leave uint64) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(d.Dir, &stat); err != nil {
		return err
	}
	free := stat.Bavail * uint64(stat.Bsize)
	if free < leave {
		return unix.ENOSPC
	}
	err := os.WriteFile(path, make([]byte, free-leave), 0o600)
	if err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
