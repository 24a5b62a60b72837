package badgerstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
)

// wantPrivate wants every file of a directory to be its owner's alone.
func wantPrivate(t *testing.T, dir, when string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 4 {
		t.Fatalf("%s: %d files, %v", when, len(entries), err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if os.IsNotExist(err) {
			continue // it was compacted away
		}
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %s has mode %v, %v, want 0600", when, e.Name(), info.Mode(), err)
		}
	}
}

// fillMemtable makes Badger write a table and begin another log.
func fillMemtable(t *testing.T, s *badgerstore.Store, dir string) {
	t.Helper()
	value := make([]byte, 60<<10)
	for n := 0; ; n++ {
		rows := []login.Row{{Key: fmt.Appendf(nil, "row%05d", n), Value: value, ExpiresAt: now.Add(time.Hour)}}
		if err := s.Save(t.Context(), rows); err != nil {
			t.Fatalf("writing: %v", err)
		}
		if tables, err := filepath.Glob(filepath.Join(dir, "*.sst")); err != nil || len(tables) > 0 {
			return
		}
	}
}

// TestFilesArePrivate: other users can read no file of a store whose
// directory they can list, while it is open and afterwards. The umask and
// earlier modes of the files do not matter.
func TestFilesArePrivate(t *testing.T) {
	// The umask is that of the whole process: this does not run beside
	// other tests.
	defer syscall.Umask(syscall.Umask(0))
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, round := range []string{"new", "with other modes"} {
		s := open(t, dir)
		wantPrivate(t, dir, round+", opened")
		fillMemtable(t, s, dir)
		wantPrivate(t, dir, round+", with a table")
		if err := s.Close(); err != nil {
			t.Fatalf("closing: %v", err)
		}
		wantPrivate(t, dir, round+", closed")
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			if failed := os.Chmod(filepath.Join(dir, e.Name()), 0o644); failed != nil {
				err = failed
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory has mode %v, %v, want the one that it had", info.Mode(), err)
	}
}
