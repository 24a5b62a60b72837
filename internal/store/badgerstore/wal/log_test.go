package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

func options() Options { return Options{CheckSpace: func() error { return nil }} }

func openLog(t testing.TB, dir string, first uint64, o Options) (*Log, []string) {
	t.Helper()
	l, left, err := openAgain(dir, first, o)
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Errorf("closing: %v", err)
		}
	})
	var records []string
	for _, s := range left {
		records = append(records, read(t, s)...)
	}
	return l, records
}

func openAgain(dir string, first uint64, o Options) (*Log, []*Segment, error) {
	left, err := Scan(dir, first)
	if err != nil {
		return nil, nil, err
	}
	l, err := Open(dir, first, left, o)
	return l, left, err
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
		if err := l.Append([]byte(r)); err != nil {
			t.Fatalf("appending: %v", err)
		}
	}
}

// TestReopen: a log that was not closed, as after the death of a process, has
// all records.
func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, left := openLog(t, dir, 0, options())
	if len(left) > 0 || !l.Empty() || l.Number() != 1 {
		t.Fatalf("a new log: %q, segment %d", left, l.Number())
	}
	want := []string{"a", "bb", string(make([]byte, 3000)), "12345678"}
	add(t, l, want...)
	if err := l.Append(nil); err != nil {
		t.Errorf("a mark: got %v", err)
	}
	for n := range 3 { // nothing is removed, so nothing changes
		l, left := openLog(t, dir, 1, options())
		if !slices.Equal(left, want) || l.Number() != uint64(n+2) {
			t.Errorf("opened %d times: got %q, segment %d", n+1, left, l.Number())
		}
	}
	if l, left := openLog(t, dir, 2, options()); len(left) > 0 || l.Number() != 5 {
		t.Errorf("when all was used: got %q, segment %d", left, l.Number())
	}
	if _, err := os.Stat(segmentPath(dir, 1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a segment that was used is still there: %v", err)
	}
}

// TestSegments: records continue in the next segment.
func TestSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options()
	o.Size = 1 << 20
	l, _ := openLog(t, dir, 0, o)
	record := func(n int) string { return fmt.Sprintf("%d %s", n, make([]byte, n%5000)) }
	const records = 2500 // about 4 segments
	want := make([]string, records)
	for n := range records {
		want[n] = record(n)
		add(t, l, want[n])
	}
	if number := l.Number(); number < 4 {
		t.Fatalf("the log is in segment %d, want more", number)
	}
	_, got := openLog(t, dir, 1, options())
	if !slices.Equal(got, want) {
		t.Errorf("opened again: got %d records, want %d", len(got), len(want))
	}
	got = nil
	for s := l.Ended(); s != nil; s = l.Ended() {
		if got = append(got, read(t, s)...); s.Number == 2 {
			break
		}
		if err := l.Remove(); err != nil {
			t.Fatalf("removing a segment: %v", err)
		}
	}
	_, rest := openLog(t, dir, 3, options())
	if got = append(got, rest...); !slices.Equal(got, want) {
		t.Errorf("part by part: got %d records, want %d", len(got), len(want))
	}
}

// TestLargestRecord: the largest record is accepted, also if it is larger than a
// segment, and a larger one is refused. Whatever size the records have, there is
// space for the end of the segment.
func TestLargestRecord(t *testing.T) {
	t.Parallel()
	for size, length := range map[int]int{SegmentSize: MaxRecord, 1 << 20: MaxRecord, 1 << 12: 1<<12 - headerSize - 2*headSize} {
		for left := range 5 * headSize {
			dir, o := t.TempDir(), options()
			o.Size = size
			l, _ := openLog(t, dir, 0, o)
			large := bytes.Repeat([]byte{7}, MaxRecord+1)
			if err := l.Append(large); !errors.Is(err, ErrTooLarge) {
				t.Errorf("a record too large: got %v", err)
			}
			want := []string{string(large[:length-left]), "12345678", "more"}
			add(t, l, want...)
			if _, got := openLog(t, dir, 1, o); !slices.Equal(got, want) {
				t.Errorf("with %d bytes left: got %d records back", left, len(got))
			}
			if left > 0 && length == MaxRecord {
				break
			}
		}
	}
}

// TestNoSpace: without space for a segment the log fails, loses nothing, and
// continues when there is space again.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	errFull := errors.New("disk is full")
	full := true
	dir, o := t.TempDir(), options()
	o.Size = 1 << 20
	o.CheckSpace = func() error {
		if full {
			return errFull
		}
		return nil
	}
	l, _ := openLog(t, dir, 0, o)
	record := make([]byte, 100_000)
	appended := 0
	var err error
	for ; err == nil && appended < 100; appended++ {
		err = l.Append(record)
	}
	if !errors.Is(err, errFull) {
		t.Fatalf("appending: got %v", err)
	}
	full = false
	add(t, l, string(record))
	if _, left := openLog(t, dir, 1, options()); len(left) != appended {
		t.Errorf("got %d records, want %d", len(left), appended)
	}
}

var errLost = errors.New("pages lost")

func loses(*os.File) error { return errLost }

// TestSync: a sync reaches the disk only if something was written since the
// last one.
func TestSync(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, options())
	synced := 0
	l.DataSync = func(f *os.File) error { synced++; return dataSync(f) }
	for range 2 {
		add(t, l, "a", "b")
		for range 2 {
			if err := l.Sync(); err != nil {
				t.Fatalf("syncing: %v", err)
			}
		}
	}
	if synced != 2 {
		t.Errorf("%d syncs of the file, want 2", synced)
	}
}

// TestFailedSyncIsFinal: a sync that works after one that failed proves
// nothing, so the log refuses all records until it is mended.
func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, options())
	add(t, l, "a")
	l.DataSync = loses
	for range 2 {
		for name, do := range map[string]func() error{
			"syncing": l.Sync, "ending a segment": l.Rotate, "appending": func() error { return l.Append([]byte("a")) },
		} {
			_ = l.Sync() // map order must not matter
			if err := do(); !errors.Is(err, errLost) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		l.DataSync = dataSync
	}
}

// TestFailedWriteIsFinal: a write that failed may have left a part of a
// record, so the segment is not written to again.
func TestFailedWriteIsFinal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, options())
	add(t, l, "before")
	works := l.file
	readOnly, err := os.Open(segmentPath(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	l.file = readOnly
	if err := l.Append([]byte("refused")); err == nil {
		t.Fatalf("a record was written to a file that is read-only")
	}
	l.file = works
	if err := l.Append([]byte("refused")); err == nil {
		t.Errorf("the log goes on by itself")
	}
	if _, left := openLog(t, dir, 1, options()); !slices.Equal(left, []string{"before"}) {
		t.Errorf("got %q", left)
	}
}

// TestSyncDelaysNoRecord: records are appended while a sync runs.
func TestSyncDelaysNoRecord(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, options())
	add(t, l, "a")
	begun, end := make(chan struct{}), make(chan struct{})
	l.DataSync = func(f *os.File) error { close(begun); <-end; return dataSync(f) }
	synced := make(chan error)
	go func() { synced <- l.Sync() }()
	<-begun
	add(t, l, "b")
	close(end)
	if err := <-synced; err != nil {
		t.Fatal(err)
	}
	if l.synced.Load() == l.written.Load() {
		t.Errorf("a record that came during a sync was taken for synced")
	}
}

// TestEndIsSynced: the end of a segment is synced before the next segment gets
// a record. Otherwise a loss of power could leave a gap.
func TestEndIsSynced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, options())
	add(t, l, "a")
	synced := 0
	l.DataSync = func(f *os.File) error {
		if f != l.file {
			return dataSync(f) // the next segment, which is being made
		}
		synced++
		if left, err := Scan(dir, 1); err != nil || !left[0].ended || left[1].records > 0 {
			t.Errorf("at the sync the segments are %+v, %v", left, err)
		}
		return dataSync(f)
	}
	if err := l.Rotate(); err != nil {
		t.Fatalf("ending a segment: %v", err)
	}
	add(t, l, "b")
	if synced != 1 {
		t.Errorf("the segment that ended was synced %d times, want 1", synced)
	}
}
