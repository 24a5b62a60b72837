package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// row is the segments of a directory, oldest first.
type row []verified

// verified is a segment and what was found in it.
type verified struct {
	*Segment
	records int
	ended   bool
}

// openRow opens and verifies the segments of a directory from first on.
// Those before it are removed: what may be wrong with them does not matter.
func openRow(dir string, first uint64) (r row, err error) {
	paths, err := list(dir, extension)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		number, err := numberOf(path)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		if number < first {
			if err := os.Remove(path); err != nil {
				return nil, errors.Join(err, r.close())
			}
			continue
		}
		s, records, ended, err := open(path, number)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r = append(r, verified{s, records, ended})
	}
	return r, nil
}

func (r row) close() (err error) {
	for _, s := range r {
		err = errors.Join(err, s.Close())
	}
	return err
}

// check makes sure that no segment from first on is missing: one is made
// before the one in front of it ends, and holds nothing before that.
func (r row) check(first uint64) error {
	if first == 0 {
		if len(r) > 0 {
			first = r[0].number
		}
	} else if len(r) == 0 {
		return missing(first)
	}
	for i, s := range r {
		switch last := i == len(r)-1; {
		case s.number != first+uint64(i):
			return missing(first + uint64(i))
		case last && s.ended:
			return missing(s.number + 1)
		case !last && !s.ended && r[i+1].records > 0:
			return fmt.Errorf("%s: its end is missing", filepath.Base(s.path))
		}
	}
	return nil
}

func missing(number uint64) error {
	return fmt.Errorf("%s is missing", filepath.Base(segmentPath("", number)))
}

// removeUnfinished removes what a crash left while a segment was made.
func removeUnfinished(dir string) error {
	paths, err := list(dir, extension+unfinished)
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
