package badgerstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// lock asks whether another process has the directory open. Badger keeps
// a file there for as long, which nobody else can open.
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
