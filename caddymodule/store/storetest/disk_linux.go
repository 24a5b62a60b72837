package storetest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk is a file system of 64 MiB that a test can fill.
type SmallDisk struct{ Dir string }

// NewSmallDisk mounts one until the test ends. That takes root: without
// it the test is skipped, but in CI it fails.
func NewSmallDisk(t *testing.T) SmallDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("mounting a small disk takes root")
		}
		t.Skip("mounting a small disk takes root")
	}
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

// Fill leaves so many bytes free, 0 for a disk that is as full as can be,
// and returns a function that takes its file away.
func (d SmallDisk) Fill(t *testing.T, leave uint64) (empty func()) {
	t.Helper()
	var stat unix.Statfs_t
	if err := unix.Statfs(d.Dir, &stat); err != nil {
		t.Fatalf("asking for free space: %v", err)
	}
	path := filepath.Join(d.Dir, "ballast")
	size := int(stat.Bavail*uint64(stat.Bsize) - leave)
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatalf("filling the disk: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatalf("emptying the disk: %v", err)
		}
	}
}
