package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/dgraph-io/ristretto/v2/z"
)

// extension ends the names of segments, and unfinished is added to it while
// one is made.
const (
	extension  = ".log"
	unfinished = ".new"
)

// Segment is one file of a log.
type Segment struct {
	number uint64
	path   string
	file   *z.MmapFile
}

// Number tells the segments of a log apart. Those of later ones are
// greater by 1.
func (s *Segment) Number() uint64 { return s.number }

// Each calls fn with every record in the order in which they were
// appended. The memory is the segment's own.
func (s *Segment) Each(fn func(record []byte) error) error {
	_, _, err := walk(s.file.Data, s.number, fn)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(s.path), err)
	}
	return nil
}

// Close unmaps the file. What Each returned is gone.
func (s *Segment) Close() error {
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return errors.Join(z.Munmap(file.Data), file.Fd.Close())
}

// Remove deletes the file. Its records are needed no more.
func (s *Segment) Remove() error {
	err := s.Close()
	return errors.Join(err, os.Remove(s.path))
}

// blank tells whether nothing was ever stored in the segment, not even a
// part of a record.
func (s *Segment) blank() bool { return firstNonZero(s.file.Data[headerSize:]) < 0 }

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%010d%s", number, extension))
}

// create makes an empty segment. Its blocks are written and on the disk,
// so that nothing which is stored in it later can fail for want of space,
// and a sync has nothing to write but the data. It has its name once it is
// complete.
func create(dir string, number uint64, size int) (*Segment, error) {
	path := segmentPath(dir, number)
	if err := writeEmpty(path+unfinished, number, size); err != nil {
		return nil, errors.Join(err, os.RemoveAll(path+unfinished))
	}
	if err := errors.Join(os.Rename(path+unfinished, path), syncDir(dir)); err != nil {
		return nil, err
	}
	return mapped(path, number)
}

func writeEmpty(path string, number uint64, size int) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := header(number, size)
	if _, err := f.Write(h[:]); err != nil {
		return err
	}
	zeros := make([]byte, 64<<10)
	for left := size - len(h); left > 0; left -= len(zeros) {
		if _, err := f.Write(zeros[:min(left, len(zeros))]); err != nil {
			return err
		}
	}
	return f.Sync()
}

// syncDir makes the names in a directory reach the disk. Windows cannot,
// and does so by itself.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return z.SyncDir(dir)
}

func mapped(path string, number uint64) (*Segment, error) {
	file, err := z.OpenMmapFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &Segment{number: number, path: path, file: file}, nil
}

// numberOf is the number that a segment's name stands for.
func numberOf(path string) (uint64, error) {
	name := filepath.Base(path)
	number, err := strconv.ParseUint(strings.TrimSuffix(name, extension), 10, 64)
	if err != nil || segmentPath(filepath.Dir(path), number) != path {
		return 0, fmt.Errorf("%s is not the name of a segment", name)
	}
	return number, nil
}

// open opens a segment and verifies it.
func open(path string, number uint64) (s *Segment, records int, ended bool, err error) {
	name := filepath.Base(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, false, err
	}
	if info.Size() < headerSize { // nothing can be mapped of an empty file
		return nil, 0, false, fmt.Errorf("%s: %w", name, &fault{int(info.Size()), "the header is cut short"})
	}
	s, err = mapped(path, number)
	if err != nil {
		return nil, 0, false, err
	}
	records, ended, err = inspect(s.file.Data, number)
	if err != nil {
		return nil, 0, false, errors.Join(fmt.Errorf("%s: %w", name, err), s.Close())
	}
	return s, records, ended, nil
}

// list returns the paths of the files in a directory whose names end so,
// in the order of their names, which is that of segments.
func list(dir, end string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), end) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}
