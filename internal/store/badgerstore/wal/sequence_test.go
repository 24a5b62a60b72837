package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSequence: a missing segment is refused, and one without its end.
func TestSequence(t *testing.T) {
	t.Parallel()
	sample := t.TempDir()
	l, _ := openLog(t, sample, 0, options())
	for n := range 3 {
		add(t, l, fmt.Sprint(n))
		if err := l.Rotate(); err != nil {
			t.Fatalf("ending a segment: %v", err)
		}
	}
	add(t, l, "3")
	if err := errors.Join(os.WriteFile(segmentPath(sample, 5), nil, 0o600), os.Truncate(segmentPath(sample, 5), SegmentSize)); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile(segmentPath(sample, 5), os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	} else if _, err := f.Write(header(5, SegmentSize)); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	path := func(dir string, n uint64) string { return segmentPath(dir, n) }
	remove := func(numbers ...uint64) func(string) error {
		return func(dir string) (err error) {
			for _, n := range numbers {
				err = errors.Join(err, os.Remove(path(dir, n)))
			}
			return err
		}
	}
	tests := []struct {
		name   string
		first  uint64
		change func(dir string) error
		want   int // records; -1 for a refusal
	}{
		{"whole", 1, remove(), 4},
		{"whole, of a new store", 0, remove(), 4},
		{"used in part", 3, remove(), 2},
		{"used in part and removed", 3, remove(1, 2), 2},
		{"without the one that is ready", 1, remove(5), 4},
		{"without the first", 1, remove(1), -1},
		{"without one in the middle", 1, remove(2), -1},
		{"without the last", 1, remove(4, 5), -1},
		{"without the last that was written to", 1, remove(4), -1},
		{"without any", 1, remove(1, 2, 3, 4, 5), -1},
		{"the number is ahead", 7, remove(), -1},
		{"swapped", 1, func(dir string) error { return os.Rename(path(dir, 2), path(dir, 3)) }, -1},
		{"one that has lost its end", 1, func(dir string) error {
			data, err := os.ReadFile(path(dir, 2))
			if err == nil {
				clear(data[headerSize+footprint(1):])
				err = os.WriteFile(path(dir, 2), data, 0o600)
			}
			return err
		}, -1},
		{"a name that is none", 1, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "1.log"), []byte("hello"), 0o600)
		}, -1},
		{"one that was being made", 1, func(dir string) error {
			return os.WriteFile(path(dir, 6)+unfinished, []byte("hello"), 0o600)
		}, 4},
	}
	for _, test := range tests {
		dir := t.TempDir()
		if err := errors.Join(os.CopyFS(dir, os.DirFS(sample)), test.change(dir)); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		l, left, err := openAgain(dir, test.first, options())
		if test.want < 0 {
			if err == nil {
				t.Errorf("%s: opened", test.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var records []string
		for _, s := range left {
			records = append(records, read(t, s)...)
			err = errors.Join(err, s.Remove())
		}
		add(t, l, "more")
		if err = errors.Join(err, l.Close()); err != nil || len(records) != test.want {
			t.Errorf("%s: got %q, %v, want %d records", test.name, records, err, test.want)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*"+unfinished)); len(left) > 0 {
			t.Errorf("%s: %q is left", test.name, left)
		}
	}
}

// TestTornFirstRecord: a crash leaves a part of the first record of a segment.
// It must not follow a shorter record that is written over it.
func TestTornFirstRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, options())
	if _, err := l.file.WriteAt(bytes.Repeat([]byte("remains"), 100), headerSize+wordSize); err != nil {
		t.Fatal(err)
	}
	l, left := openLog(t, dir, 0, options())
	if len(left) > 0 || l.Number() != 2 {
		t.Errorf("got %q, and the log goes on in segment %d", left, l.Number())
	}
}

// TestDamagedUnneededSegment: the log opens, whatever is in a segment that is
// not needed any more.
func TestDamagedUnneededSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, options())
	add(t, l, "done with")
	if _, err := l.file.WriteAt([]byte("damage"), headerSize); err != nil {
		t.Fatal(err)
	}
	if err := l.Rotate(); err != nil {
		t.Fatalf("ending a segment: %v", err)
	}
	add(t, l, "needed")
	if _, left := openLog(t, dir, l.Number(), options()); !slices.Equal(left, []string{"needed"}) {
		t.Errorf("got %q", left)
	}
	if _, err := os.Stat(segmentPath(dir, 1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the segment that is done with is still there: %v", err)
	}
}
