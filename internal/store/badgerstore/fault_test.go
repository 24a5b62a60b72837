package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

var errDisk = errors.New("input/output error")

// openFaulty opens a store whose log fails to sync while faulty is true.
func openFaulty(t *testing.T, dir string) (s TestStore, faulty *atomic.Bool) {
	t.Helper()
	faulty = new(atomic.Bool)
	return openHere(t, dir, Options{}.WithFaults(faulty.Load)), faulty
}

// failLog makes the log of a store fail.
func failLog(t *testing.T, s TestStore, faulty *atomic.Bool) {
	t.Helper()
	faulty.Store(true)
	// The background may have synced the calls, so there must be something to sync.
	if err := s.journal.check(); !errors.Is(err, errDisk) || s.journal.log.Failed() == nil {
		t.Fatalf("syncing: got %v", err)
	}
	faulty.Store(false)
}

// openFailed opens a store with one call, whose log has failed. It keeps the
// background from restoring the log: the test unlocks archiving.
func openFailed(t *testing.T) (s TestStore, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, faulty := openFaulty(t, dir)
	take(t, s, call("convert", today))
	s.journal.archiving.Lock()
	failLog(t, s, faulty)
	return s, dir
}

// appendWith replaces a store's way to write to its log.
func appendWith(s TestStore, write func(record []byte) error) {
	s.journal.appending.Lock()
	defer s.journal.appending.Unlock()
	s.journal.append = write
}

// checkDiskWith replaces a store's check before it writes to the archive.
func checkDiskWith(s TestStore, check func() error) {
	s.archive.mu.Lock()
	defer s.archive.mu.Unlock()
	s.archive.checkDisk = check
}

// wantAfterCrash opens a copy of a store's directory.
func wantAfterCrash(t *testing.T, dir string, want int64) {
	t.Helper()
	crashed := t.TempDir()
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatalf("copying: %v", err)
	}
	wantUsed(t, openHere(t, crashed, Options{}), call("convert", today), want)
}

// TestRestoreOnce: the second of two goroutines that saw the same failure finds
// a log that works, and does not restore it again.
func TestRestoreOnce(t *testing.T) {
	t.Parallel()
	s, dir := openFailed(t)
	for range 2 {
		if err := s.journal.restore(); err != nil {
			t.Errorf("restoring: %v", err)
		}
		take(t, s, call("convert", today))
	}
	if number := s.journal.log.Number(); number != 2 {
		t.Errorf("the log is in segment %d, want 2", number)
	}
	s.journal.archiving.Unlock()
	wantAfterCrash(t, dir, 3)
}

// TestFailedSegmentIsNotRead: the kernel may have dropped pages of a segment
// that failed. The background does not write them to the archive after an
// export failed to restore the log.
func TestFailedSegmentIsNotRead(t *testing.T) {
	t.Parallel()
	s, dir := openFailed(t)
	checks, works := 0, s.archive.checkDisk
	checkDiskWith(s, func() error {
		if checks++; checks > 2 { // in restore, and in Renew
			return errDisk
		}
		return works()
	})
	if err := s.journal.restore(); !errors.Is(err, errDisk) {
		t.Errorf("restoring: got %v", err)
	}
	checkDiskWith(s, works)
	if left := s.journal.log.Ended(); left == nil || left.Number != 1 {
		t.Fatalf("the segment that failed has not ended: %v", left)
	}
	if err := os.Truncate(filepath.Join(dir, "0000000001.log"), 32); err != nil { // its header
		t.Fatal(err)
	}
	s.journal.archiving.Unlock()
	if err := s.journal.archiveEnded(); err != nil {
		t.Errorf("writing segments: %v", err)
	}
	if got := archived(t, s, call("convert", today)); got != 1 {
		t.Errorf("the archive has %d, want 1", got)
	}
	wantAfterCrash(t, dir, 1)
}
