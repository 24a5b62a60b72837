package badgerstore

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// TestPrivateWithoutACL: on a file system without ACLs the directory is made
// private.
func TestPrivateWithoutACL(t *testing.T) {
	t.Parallel()
	storetest.NeedRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("ramfs", dir, "ramfs", 0, "mode=0755"); err != nil {
		t.Fatalf("mounting: %v", err)
	}
	defer unix.Unmount(dir, 0)
	file := filepath.Join(dir, "MANIFEST")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := keepPrivate(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, file: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}
