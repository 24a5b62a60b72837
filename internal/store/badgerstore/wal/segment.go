package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// extension ends the names of segments. unfinished is added until a segment is
// complete.
const (
	extension  = ".log"
	unfinished = ".new"
)

// Segment is a file of a log to which no more records are written.
type Segment struct {
	// Number is 1 more than that of the segment before.
	Number uint64

	path    string
	records int
	ended   bool
	torn    *Torn
}

// Scan verifies the segments of a directory from first on, and returns them
// oldest first. It changes nothing.
func Scan(dir string, first uint64) (segments []*Segment, err error) {
	paths, err := list(dir, extension)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		number, err := numberOf(path)
		if err != nil {
			return nil, err
		}
		if number < first {
			continue // damage does not matter: its records are not needed
		}
		s := &Segment{Number: number, path: path}
		if err := s.read(s.inspect); err != nil {
			return nil, err
		}
		segments = append(segments, s)
	}
	return segments, nil
}

// checkSequence checks that no segment from first on is missing. The log
// creates a segment before it ends the one before, and writes no records to it
// until then.
func checkSequence(first uint64, segments []*Segment) error {
	if first == 0 {
		if len(segments) > 0 {
			first = segments[0].Number
		}
	} else if len(segments) == 0 {
		return missing(first)
	}
	for i, s := range segments {
		switch last := i == len(segments)-1; {
		case s.Number != first+uint64(i):
			return missing(first + uint64(i))
		case last && s.ended:
			return missing(s.Number + 1)
		case !last && !s.ended && segments[i+1].records > 0:
			return &fault{file: filepath.Base(s.path), reason: "its end is missing"}
		}
	}
	return nil
}

func missing(number uint64) error {
	return &fault{file: filepath.Base(segmentPath("", number)), reason: "the file is missing"}
}

// Each calls fn with every record, oldest first. The record is valid until fn
// returns.
func (s *Segment) Each(fn func(record []byte) error) error {
	return s.read(func(w *window) error {
		_, _, err := walk(w, s.Number, func(e entry) error {
			if len(e.record) == 0 {
				return nil
			}
			return fn(e.record)
		})
		return err
	})
}

// Torn returns the end of the segment that a loss of power took, nil if it has
// all that was written.
func (s *Segment) Torn() *Torn { return s.torn }

// Empty tells whether Scan found no record in the segment.
func (s *Segment) Empty() bool { return s.records == 0 }

// Remove deletes the file.
func (s *Segment) Remove() error { return os.Remove(s.path) }

// read calls fn with the segment's file.
func (s *Segment) read(fn func(*window) error) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil { // what is read now is there after a loss of power
		return err
	}
	err = fn(&window{file: f, size: int(info.Size())})
	if damage := (*fault)(nil); errors.As(err, &damage) {
		damage.file = filepath.Base(s.path)
	}
	return err
}

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%010d%s", number, extension))
}

// numberOf returns the number in the name of a segment.
func numberOf(path string) (uint64, error) {
	name := filepath.Base(path)
	number, err := strconv.ParseUint(strings.TrimSuffix(name, extension), 10, 64)
	if err != nil || segmentPath(filepath.Dir(path), number) != path {
		return 0, &fault{file: name, reason: "this is not the name of a segment, such as " + segmentPath("", 1)}
	}
	return number, nil
}

// writeEmpty makes a file with a header and its full size, sparse unless fill
// is set. A record for which the disk has no space fails like any other write.
// A file that is shorter than its header says has lost its end.
func writeEmpty(path string, number uint64, size int, fill bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(header(number, size))
	zeros := make([]byte, 64<<10)
	for at := headerSize; fill && err == nil && at < size; at += len(zeros) {
		_, err = f.Write(zeros[:min(len(zeros), size-at)])
	}
	if err = errors.Join(err, f.Truncate(int64(size))); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// list returns the paths of the files in a directory whose names have an end,
// in the order of their names. For segments that is the order of their numbers.
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
