package badgerstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// lock checks whether another process has the directory open. Badger has a file
// there, which no other process can open meanwhile.
func lock(dir string) (release func() error, err error) {
	f, err := os.Open(filepath.Join(dir, "LOCK"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return func() error { return nil }, nil
	case err != nil:
		return nil, errors.Join(ErrInUse, err)
	}
	return f.Close, nil
}
