package wal

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAside: this system flushes without holding up a thread, and does
// so to the end: nothing that was stored waits to be written.
func TestAside(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, Options{Sync: true})
	a := asideOf(t, l)
	l.flusher = direct{}
	add(t, l, "record")
	if unwritten(t, l.current) > 0 {
		t.Skip("the file system has no disk")
	}
	l.flusher = a
	for range 100 {
		add(t, l, "record")
		if a.result.request == 0 || a.result.result != 0 {
			t.Fatalf("the system answered %+v", a.result)
		}
		if size := unwritten(t, l.current); size > 0 {
			t.Fatalf("%d KiB are not written", size)
		}
		a.result = event{}
	}
}

// asideOf returns what this system flushes a log with.
func asideOf(t *testing.T, l *Log) *aside {
	t.Helper()
	a, ok := l.flusher.(*aside)
	if !ok {
		t.Fatalf("the flusher is %T", l.flusher)
	}
	return a
}

// unwritten returns how much of a segment waits to be written, in KiB.
func unwritten(t *testing.T, s *Segment) (size int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, mapping, ok := strings.Cut(string(maps), s.path+"\n")
	if !ok {
		t.Fatalf("%s is not mapped", s.path)
	}
	mapping, _, _ = strings.Cut(mapping, "VmFlags")
	for line := range strings.Lines(mapping) {
		if _, dirty, ok := strings.Cut(line, "_Dirty:"); ok {
			n, err := strconv.Atoi(strings.Fields(dirty)[0])
			if err != nil {
				t.Fatal(err)
			}
			size += n
		}
	}
	return size
}

// TestAsideReportsFailures: a request that failed is not one that is done.
func TestAsideReportsFailures(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, Options{})
	a := asideOf(t, l)
	const read, nowhere = 0, 1 // IOCB_CMD_PREAD, and no address
	begun, err := a.do(control{opcode: read, file: uint32(l.current.file.Fd.Fd()), buf: nowhere, nbytes: 1})
	if !begun || !errors.Is(err, unix.EFAULT) {
		t.Errorf("got %t, %v, want %v", begun, err, unix.EFAULT)
	}
}

// TestAsideFallsBack: what the system does not take aside is flushed all
// the same.
func TestAsideFallsBack(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, Options{})
	a := asideOf(t, l)
	// A pipe cannot be synced.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	file := l.current.file.Fd
	defer func() { l.current.file.Fd = file }()
	l.current.file.Fd = w
	if err := a.flush(l.current, 0, headerSize); err != nil || a.result.request != 0 {
		t.Errorf("got %v, and the system answered %+v", err, a.result)
	}
}
