package gate_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// copyDir copies the files of a directory at one moment: it copies again if
// Badger replaced a file meanwhile.
func copyDir(from, to string) error {
	for {
		before, err := files(from)
		if err != nil {
			return err
		}
		err = nil
		for _, file := range slices.Sorted(maps.Keys(before)) {
			err = errors.Join(err, copyFile(filepath.Join(from, file), filepath.Join(to, file)))
		}
		after, failed := files(from)
		if failed != nil || maps.Equal(before, after) {
			return errors.Join(err, failed)
		}
		for file := range before {
			_ = os.Remove(filepath.Join(to, file)) // it may not have been copied
		}
	}
}

// files returns what identifies the state of the files in a directory.
func files(dir string) (map[string]string, error) {
	list, err := os.ReadDir(dir)
	states := map[string]string{}
	for _, file := range list {
		info, failed := file.Info()
		switch {
		case failed == nil:
			states[file.Name()] = fmt.Sprint(info.Size(), info.ModTime())
		case !errors.Is(failed, fs.ErrNotExist): // else it was removed meanwhile
			err = errors.Join(err, failed)
		}
	}
	return states, err
}

// copyFile leaves holes where a file has zeros.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	defer target.Close()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := io.ReadFull(source, block)
		if !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := target.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return target.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}
