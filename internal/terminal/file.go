package terminal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/caddy-tollgate/tollgate/internal/system"
)

// NewFile writes a new file with the mode 0600. It has its name only when write
// has succeeded and the content is on the disk. It replaces no file.
func NewFile(path string, write func(draft *os.File) error) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing %s: %w; choose another name", path, cmp.Or(err, fs.ErrExist))
	}
	return writeFile(path, write, publish)
}

// ReplaceFile is NewFile for a file that may exist. Until it is replaced, the
// older file is as it was.
func ReplaceFile(path string, write func(draft *os.File) error) error {
	return writeFile(path, write, os.Rename)
}

// writeFile writes a draft, and gives it its name with publish.
func writeFile(path string, write func(draft *os.File) error, publish func(draft, path string) error) error {
	// A temporary file has the mode 0600.
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(draft.Name())
	if err := write(draft); err != nil {
		return errors.Join(err, draft.Close())
	}
	err = errors.Join(draft.Sync(), draft.Close())
	if err == nil {
		err = publish(draft.Name(), path)
	}
	if err == nil {
		err = system.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// publish gives a draft its name. It replaces no file.
func publish(draft, path string) error {
	// Unlike a rename, a link replaces no file that was made meanwhile.
	err := os.Link(draft, path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = renameToNew(draft, path)
	}
	return err
}

// renameToNew is for file systems without hard links, such as FAT. An empty
// file reserves the name; it remains only if the process is killed before the
// rename.
func renameToNew(draft, path string) error {
	reserved, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(reserved.Close(), os.Rename(draft, path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
