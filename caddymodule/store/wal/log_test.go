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

func anyRoom() error { return nil }

func openLog(t testing.TB, dir string, first uint64, o Options) (*Log, []string) {
	t.Helper()
	if o.Room == nil {
		o.Room = anyRoom
	}
	l, left, err := Open(dir, first, o)
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	var records []string
	for _, s := range left {
		records = append(records, read(t, s)...)
		if err := s.Close(); err != nil {
			t.Errorf("closing a segment: %v", err)
		}
	}
	return l, records
}

func read(t testing.TB, s *Segment) (records []string) {
	t.Helper()
	if err := s.Each(func(record []byte) error { records = append(records, string(record)); return nil }); err != nil {
		t.Errorf("reading: %v", err)
	}
	return records
}

func add(t testing.TB, l *Log, records ...string) {
	t.Helper()
	for _, r := range records {
		if err := l.Append([]byte(r), false); err != nil {
			t.Fatalf("appending: %v", err)
		}
	}
}

// TestReopen: a log that was left behind without a word, as a process does
// that is killed, has everything.
func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, left := openLog(t, dir, 0, Options{})
	if len(left) > 0 || !l.Empty() || l.Number() != 1 {
		t.Fatalf("a new log: %q, segment %d", left, l.Number())
	}
	want := []string{"a", "bb", string(make([]byte, 3000)), "12345678"}
	add(t, l, want...)
	if err := l.Append(nil, false); !errors.Is(err, ErrTooLarge) {
		t.Errorf("an empty record: got %v", err)
	}
	for n := range 3 { // nothing is removed, so nothing changes
		l, left := openLog(t, dir, 1, Options{})
		if !slices.Equal(left, want) || l.Number() != 2 {
			t.Errorf("opened %d times: got %q, segment %d", n+1, left, l.Number())
		}
	}
	if l, left := openLog(t, dir, 2, Options{}); len(left) > 0 || l.Number() != 2 {
		t.Errorf("when all was used: got %q, segment %d", left, l.Number())
	}
}

// TestSegments: a log goes on from segment to segment, whether or not the
// next one was ready.
func TestSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, Options{})
	record := func(n int) string { return fmt.Sprintf("%d %s", n, make([]byte, n%5000)) }
	const records = 2500 // about 4 segments
	want := make([]string, records)
	for n := range records {
		if n%500 == 250 {
			if err := l.Prepare(); err != nil {
				t.Fatalf("preparing a segment: %v", err)
			}
		}
		want[n] = record(n)
		add(t, l, want[n])
	}
	select {
	case <-l.Full():
	default:
		t.Errorf("nobody was told that a segment has ended")
	}
	if number := l.Number(); number < 4 {
		t.Fatalf("the log is in segment %d, want more", number)
	}
	_, got := openLog(t, dir, 1, Options{})
	if !slices.Equal(got, want) {
		t.Errorf("opened again: got %d records, want %d", len(got), len(want))
	}
	got = nil
	for s := l.Ended(); s != nil; s = l.Ended() {
		if got = append(got, read(t, s)...); s.Number() == 2 {
			break
		}
		if err := l.Remove(); err != nil {
			t.Fatalf("removing a segment: %v", err)
		}
	}
	_, rest := openLog(t, dir, 3, Options{})
	if got = append(got, rest...); !slices.Equal(got, want) {
		t.Errorf("part by part: got %d records, want %d", len(got), len(want))
	}
}

// TestLargestRecord: what fits into a segment is taken, what does not is
// refused.
func TestLargestRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, Options{})
	large := bytes.Repeat([]byte{7}, MaxRecord+1)
	add(t, l, "small")
	if err := l.Append(large, false); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a record too large: got %v", err)
	}
	add(t, l, string(large[1:]), "small again")
	if _, left := openLog(t, dir, 1, Options{}); len(left) != 3 || left[1] != string(large[1:]) {
		t.Errorf("got %d records back", len(left))
	}
}

// TestFullToTheEnd: however the records fall, there is a place left for
// the end of the segment.
func TestFullToTheEnd(t *testing.T) {
	t.Parallel()
	for left := range 5 * wordSize {
		dir := t.TempDir()
		l, _ := openLog(t, dir, 0, Options{})
		add(t, l, string(make([]byte, MaxRecord-left)), "12345678", "more")
		if _, got := openLog(t, dir, 1, Options{}); len(got) != 3 || got[2] != "more" {
			t.Errorf("with %d bytes left: got %d records back", left, len(got))
		}
	}
}

// TestSmallerSegment: a segment that was made when they were smaller is
// written to within its bounds.
func TestSmallerSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const size = 1 << 12
	s, err := create(dir, 1, size)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatalf("making a segment: %v", err)
	}
	l, _ := openLog(t, dir, 1, Options{})
	want := []string{"a", string(make([]byte, size/2)), string(make([]byte, size/2)), string(make([]byte, 2*size))}
	add(t, l, want...)
	if _, got := openLog(t, dir, 1, Options{}); !slices.Equal(got, want) || l.Number() != 2 {
		t.Errorf("got %d records, want %d, segment %d", len(got), len(want), l.Number())
	}
}

// TestNoRoom: a log that may not grow fails, loses nothing and goes on by
// itself.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	errFull := errors.New("disk is full")
	full := true
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, Options{Room: func() error {
		if full {
			return errFull
		}
		return nil
	}})
	if err := l.Prepare(); !errors.Is(err, errFull) {
		t.Errorf("preparing a segment: got %v", err)
	}
	record := make([]byte, 100_000)
	appended := 0
	var err error
	for ; err == nil && appended < 100; appended++ {
		err = l.Append(record, false)
	}
	if !errors.Is(err, errFull) {
		t.Fatalf("appending: got %v", err)
	}
	full = false
	add(t, l, string(record))
	if _, left := openLog(t, dir, 1, Options{}); len(left) != appended {
		t.Errorf("got %d records, want %d", len(left), appended)
	}
}

// watched calls before before each flush, which an error prevents.
type watched struct {
	flusher
	before func(from, to int) error
}

func (w *watched) flush(s *Segment, from, to int) error {
	if err := w.before(from, to); err != nil {
		return err
	}
	return w.flusher.flush(s, from, to)
}

// TestSync: with Sync each record is on the disk before Append returns, and
// nothing else has to be; without it one that is to be durable brings all
// that was before it.
func TestSync(t *testing.T) {
	t.Parallel()
	page := os.Getpagesize()
	for _, sync := range []bool{false, true} {
		l, _ := openLog(t, t.TempDir(), 0, Options{Sync: sync})
		var synced []int
		l.flusher = &watched{flusher: l.flusher, before: func(from, to int) error {
			synced = append(synced, to-from)
			return nil
		}}
		add(t, l, string(make([]byte, 3*page)))
		add(t, l, "b")
		if err := l.Append([]byte("c"), true); err != nil {
			t.Fatalf("appending: %v", err)
		}
		if err := l.Rotate(); err != nil {
			t.Fatalf("ending a segment: %v", err)
		}
		switch {
		case !sync && (len(synced) != 1 || synced[0] < 3*page):
			t.Errorf("without sync: synced %d bytes, want all once", synced)
		case sync && (len(synced) != 4 || synced[0] < 3*page || slices.Max(synced[1:]) > page):
			t.Errorf("with sync: synced %d bytes, want what is new each time", synced)
		}
	}
}

// TestFailedSyncIsFinal: a sync that works after one that failed proves
// nothing.
func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, Options{Sync: true})
	errLost, flusher := errors.New("pages lost"), l.flusher
	l.flusher = &watched{flusher: flusher, before: func(int, int) error { return errLost }}
	for range 2 {
		if err := l.Append([]byte("a"), false); !errors.Is(err, errLost) {
			t.Errorf("appending: got %v", err)
		}
		if err := l.Rotate(); !errors.Is(err, errLost) {
			t.Errorf("ending a segment: got %v", err)
		}
		l.flusher = flusher
	}
}

// TestFailedSyncIsFinalForAll: it is final also for what need not be
// synced.
func TestFailedSyncIsFinalForAll(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, Options{})
	errLost, flusher := errors.New("pages lost"), l.flusher
	l.flusher = &watched{flusher: flusher, before: func(int, int) error { return errLost }}
	if err := l.Append([]byte("a"), true); !errors.Is(err, errLost) {
		t.Errorf("appending what is to be durable: got %v", err)
	}
	l.flusher = flusher
	if err := l.Append([]byte("a"), false); !errors.Is(err, errLost) {
		t.Errorf("appending: got %v", err)
	}
}

// TestRow: no segment may be missing, and none may have lost its end.
func TestRow(t *testing.T) {
	t.Parallel()
	sample := t.TempDir()
	l, _ := openLog(t, sample, 0, Options{})
	for n := range 3 {
		add(t, l, fmt.Sprint(n))
		if err := l.Rotate(); err != nil {
			t.Fatalf("ending a segment: %v", err)
		}
	}
	add(t, l, "3")
	if err := l.Prepare(); err != nil {
		t.Fatalf("preparing a segment: %v", err)
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
				at, _, _ := walk(data, 2, func([]byte) error { return nil })
				clear(data[at:])
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
		l, left, err := Open(dir, test.first, Options{Room: anyRoom})
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

func BenchmarkAppend(b *testing.B) {
	l, _ := openLog(b, b.TempDir(), 0, Options{})
	record := make([]byte, 30)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Append(record, false); err != nil {
			b.Fatal(err)
		}
		for l.Ended() != nil {
			if err := l.Remove(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestRemainsAreNotWrittenOver: a crash in the first record of a segment
// leaves a part of it, which must not come up behind a shorter one.
func TestRemainsAreNotWrittenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, Options{})
	add(t, l, "before")
	if err := l.Rotate(); err != nil {
		t.Fatalf("ending a segment: %v", err)
	}
	copy(l.current.file.Data[headerSize+wordSize:], bytes.Repeat([]byte("remains"), 100))

	first := uint64(0)
	for _, want := range []string{"before", "after"} {
		l, left := openLog(t, dir, first, Options{})
		if !slices.Equal(left, []string{want}) {
			t.Fatalf("got %q, want %q", left, want)
		}
		first = l.Number()
		if data := l.current.file.Data; firstNonZero(data[headerSize:]) >= 0 {
			t.Fatalf("the log goes on in a segment that is not blank")
		}
		add(t, l, "after")
		if err := l.Rotate(); err != nil {
			t.Fatalf("ending a segment: %v", err)
		}
	}
}

// TestWhatIsDoneWithDoesNotMatter: a segment that is needed no more cannot
// keep a log from opening, whatever has become of it.
func TestWhatIsDoneWithDoesNotMatter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, Options{})
	add(t, l, "done with")
	l.current.file.Data[headerSize+wordSize]++
	done := l.current.path
	if err := l.Rotate(); err != nil {
		t.Fatalf("ending a segment: %v", err)
	}
	add(t, l, "needed")
	if _, left := openLog(t, dir, l.Number(), Options{}); !slices.Equal(left, []string{"needed"}) {
		t.Errorf("got %q", left)
	}
	if _, err := os.Stat(done); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the segment that is done with is still there: %v", err)
	}
}

// TestDurableBehindOthers: a record that must reach the disk does not get
// there before what was written in front of it. Should the power be lost
// then, it would stand behind a gap, and the log would be refused.
func TestDurableBehindOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, Options{})
	var flushed []uint64
	works := l.flusher
	l.flusher = flushFunc(func(s *Segment, from, to int) error {
		flushed = append(flushed, s.number)
		return works.flush(s, from, to)
	})
	add(t, l, "nothing was promised of this")
	if err := l.Rotate(); err != nil {
		t.Fatalf("ending a segment: %v", err)
	}
	if err := l.Append([]byte("durable"), true); err != nil {
		t.Fatalf("appending: %v", err)
	}
	if !slices.Equal(flushed, []uint64{1, 2}) {
		t.Errorf("the segments %d were synced, in this order; want 1, 2", flushed)
	}
	errLost := errors.New("pages lost")
	l.flusher = flushFunc(func(s *Segment, from, to int) error {
		if s.number == 1 {
			return errLost
		}
		return works.flush(s, from, to)
	})
	for range 2 {
		if err := l.Append([]byte("durable"), true); !errors.Is(err, errLost) {
			t.Errorf("behind what could not be synced: got %v, want %v", err, errLost)
		}
		l.flusher = works // whatever it says from now on
	}
}

type flushFunc func(s *Segment, from, to int) error

func (f flushFunc) flush(s *Segment, from, to int) error { return f(s, from, to) }
func (f flushFunc) close() error                         { return nil }

// TestOwnSize: segments are as large as the options say, and so are the
// records that fit.
func TestOwnSize(t *testing.T) {
	t.Parallel()
	const size = 1 << 12
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, Options{Size: size})
	largest := string(make([]byte, size-headerSize-2*wordSize))
	add(t, l, "small", largest, "small again")
	if err := l.Append([]byte(largest+"1"), false); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a record larger than a segment: got %v, want %v", err, ErrTooLarge)
	}
	if l.Number() != 3 {
		t.Errorf("three records are in %d segments, want 3", l.Number())
	}
}
