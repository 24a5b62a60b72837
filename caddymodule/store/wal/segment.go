package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dgraph-io/ristretto/v2/z"
)

// extension ends the names of segments, and making is added to it while
// one is made.
const (
	extension = ".log"
	making    = ".new"
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

// close unmaps the file. What it returned from Each is gone.
func (s *Segment) close() error { return s.file.Close(-1) }

// Remove deletes the file. Its records are needed no more.
func (s *Segment) Remove() error {
	err := s.close()
	return errors.Join(err, os.Remove(s.path))
}

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%010d%s", number, extension))
}

// create makes an empty segment. Its blocks are written and on the disk,
// so that nothing which is stored in it later can fail for want of space,
// and a sync has nothing to write but the data. It has its name once it is
// complete.
func create(dir string, number uint64, size int) (*Segment, error) {
	path := segmentPath(dir, number)
	if err := writeEmpty(path+making, number, size); err != nil {
		return nil, errors.Join(err, os.RemoveAll(path+making))
	}
	if err := errors.Join(os.Rename(path+making, path), z.SyncDir(dir)); err != nil {
		return nil, err
	}
	return mapped(path, number, os.O_RDWR)
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

func mapped(path string, number uint64, flag int) (*Segment, error) {
	file, err := z.OpenMmapFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	return &Segment{number: number, path: path, file: file}, nil
}

// open opens a segment and verifies it.
func open(path string) (s *Segment, records int, ended bool, err error) {
	name := filepath.Base(path)
	number, err := strconv.ParseUint(strings.TrimSuffix(name, extension), 10, 64)
	if err != nil || segmentPath(filepath.Dir(path), number) != path {
		return nil, 0, false, fmt.Errorf("%s is not the name of a segment", name)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, false, err
	}
	if info.Size() < headerSize { // nothing can be mapped of an empty file
		return nil, 0, false, fmt.Errorf("%s: %w", name, &fault{int(info.Size()), "the header is cut short"})
	}
	s, err = mapped(path, number, os.O_RDWR)
	if err != nil {
		return nil, 0, false, err
	}
	records, ended, err = inspect(s.file.Data, number)
	if err != nil {
		return nil, 0, false, errors.Join(fmt.Errorf("%s: %w", name, err), s.close())
	}
	return s, records, ended, nil
}

// list returns the paths of the segments in a directory, in their order.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var paths []string
	for _, e := range entries { // sorted by name, which is by number
		if strings.HasSuffix(e.Name(), extension) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(paths)
	return paths, err
}
