package wal

import (
	"errors"
	"os"
	"slices"
	"testing"
)

// TestRenew: a log that failed continues in an empty segment, after the caller
// has stored its content in another place.
func TestRenew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, options())
	add(t, l, "lost")
	l.DataSync = loses
	if err := l.Sync(); !errors.Is(err, errLost) {
		t.Fatalf("syncing: got %v", err)
	}
	l.DataSync = dataSync
	for range 2 {
		if number, err := l.Renew(); number != 2 || err != nil {
			t.Fatalf("renewing: got %d, %v", number, err)
		}
		if err := l.Append([]byte("early")); !errors.Is(err, errLost) {
			t.Errorf("before it was mended: got %v", err)
		}
	}
	if s := l.Ended(); s == nil || s.Number != 1 {
		t.Errorf("the segment that failed has not ended: %v", s)
	}
	l.Mend()
	add(t, l, "after")
	if _, left := openLog(t, dir, 2, options()); !slices.Equal(left, []string{"after"}) {
		t.Errorf("got %q", left)
	}
}

// TestRenewRefused: a log that works is not renewed. Its segment would get no
// end, and Open refuses that when a record follows.
func TestRenewRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, options())
	add(t, l, "a")
	if number, err := l.Renew(); err == nil || l.Number() != 1 {
		t.Errorf("got segment %d, %v", number, err)
	}
	add(t, l, "b")
	if _, left := openLog(t, dir, 1, options()); !slices.Equal(left, []string{"a", "b"}) {
		t.Errorf("got %q", left)
	}
}

// TestRenewAfterEnd: the end of a segment may be written when its sync fails.
// So this segment is not used again, even if it has no records.
func TestRenewAfterEnd(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, options())
	l.DataSync = func(f *os.File) error {
		if f == l.file {
			return errLost
		}
		return dataSync(f)
	}
	if err := l.Rotate(); !errors.Is(err, errLost) {
		t.Fatalf("ending a segment: got %v", err)
	}
	if number, err := l.Renew(); number != 2 || err != nil {
		t.Errorf("renewing: got segment %d, %v, want 2", number, err)
	}
}

// TestSyncFailsBeforeEnd: a segment does not end when a sync fails while the
// next one is being made.
func TestSyncFailsBeforeEnd(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, options())
	add(t, l, "a")
	syncing, making := make(chan struct{}), make(chan struct{})
	current, failed := l.file, false
	l.DataSync = func(f *os.File) error {
		switch {
		case f != current:
			close(making)
		case !failed: // only once, as the kernel reports it
			failed = true
			close(syncing)
			<-making
			return errLost
		}
		return dataSync(f)
	}
	synced := make(chan error)
	go func() { synced <- l.Sync() }()
	<-syncing
	if err := l.Rotate(); !errors.Is(err, errLost) || l.Number() != 1 {
		t.Errorf("ending a segment: got %v, segment %d", err, l.Number())
	}
	if err := <-synced; !errors.Is(err, errLost) {
		t.Errorf("syncing: got %v", err)
	}
}

// TestRenewAfterPartOfARecord: a failed write of a segment's first record may
// have left a part of it, so the segment is not used again.
func TestRenewAfterPartOfARecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, options())
	readOnly, err := os.Open(segmentPath(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	l.file = readOnly
	if err := l.Append([]byte("refused")); err == nil {
		t.Fatalf("a record was written to a file that is read-only")
	}
	l.dirty.Store(false) // as a sync does that began before
	if number, err := l.Renew(); number != 2 || err != nil {
		t.Errorf("renewing: got segment %d, %v, want 2", number, err)
	}
}
