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

// TestRenewBegins: a segment is used again only if nothing of it may be written.
// A log that works is not renewed: its segment would get no end.
func TestRenewBegins(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		want uint64 // 0 for an error
		fail func(l *Log, dir string) error
	}{
		{"a log that works", 0, func(*Log, string) error { return errLost }},
		{"a failed sync without records", 1, func(l *Log, _ string) error {
			l.DataSync = loses
			l.synced.Store(0)
			return l.Sync()
		}},
		{"the sync of the end of a segment", 2, func(l *Log, _ string) error {
			current := l.file
			l.DataSync = func(f *os.File) error {
				if f == current {
					return errLost
				}
				return dataSync(f)
			}
			return l.Rotate()
		}},
		{"a part of the first record", 2, func(l *Log, dir string) (err error) {
			if l.file, err = os.Open(segmentPath(dir, 1)); err != nil { // it is read-only
				t.Fatal(err)
			}
			err = l.Append([]byte("refused"))
			return err
		}},
	} {
		dir := t.TempDir()
		l, _ := openLog(t, dir, 0, options())
		if err := test.fail(l, dir); err == nil {
			t.Fatalf("%s: no failure", test.name)
		}
		l.DataSync = dataSync
		if number, err := l.Renew(); number != test.want || (err == nil) != (test.want > 0) {
			t.Errorf("%s: got segment %d, %v, want %d", test.name, number, err, test.want)
		}
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
