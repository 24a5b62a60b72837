package badgerstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// keepPrivate makes all files of a directory readable and writable only by
// their owner, those that exist and those that Badger will create. If the file
// system cannot do that for new files, it makes the directory private.
func keepPrivate(dir string) error {
	err := restrictNewFiles(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		err = os.Chmod(dir, 0o700)
	}
	entries, failed := os.ReadDir(dir)
	err = errors.Join(err, failed)
	for _, e := range entries {
		if e.Type().IsRegular() {
			err = errors.Join(err, restrict(filepath.Join(dir, e.Name()), e))
		}
	}
	return err
}

// restrict makes one file private.
func restrict(path string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil || info.Mode().Perm() == 0o600 {
		return err
	}
	return os.Chmod(path, 0o600)
}
