package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// openFailing opens a store whose log fails to sync while the flag is set.
func openFailing(t *testing.T, dir string) (*Store, *atomic.Bool) {
	t.Helper()
	var fails atomic.Bool
	return openHere(t, dir, Options{dataSync: func(f *os.File) error {
		if fails.Load() {
			return errors.New("pages lost")
		}
		return f.Sync()
	}}), &fails
}

// TestSyncFailsInTheBackground: without Options.Sync a disk that loses
// what was written is noticed by the sync in the background. Then the
// store refuses calls until the log has begun again.
func TestSyncFailsInTheBackground(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, fails := openFailing(t, dir)
	for range 5 {
		take(t, s, call("convert", today))
	}
	if err := s.ledger.GiveBack(call("convert", today)); err != nil {
		t.Fatal(err)
	}
	fails.Store(true)
	if err := s.journal.syncNow(); err == nil {
		t.Fatalf("the sync did not fail")
	}
	if _, admitted, err := s.ledger.Take(call("convert", today), 100); admitted || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a call is admitted after it: %v", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the check says %v", err)
	}
	fails.Store(false)
	if err := s.journal.syncNow(); err != nil {
		t.Fatalf("beginning again: %v", err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("then the check says %v", err)
	}
	take(t, s, call("convert", today))
	wantUsed(t, s, call("convert", today), 5)
}

// TestLostPagesDoNotMatter: what was in a segment that failed is in the
// archive before another call is admitted. The segment's file may have
// lost it.
func TestLostPagesDoNotMatter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, fails := openFailing(t, dir)
	for range 3 {
		take(t, s, call("convert", today))
		take(t, s, call("rates", today-1))
	}
	lost := filepath.Join(dir, "0000000001.log")
	fails.Store(true)
	if err := s.journal.log.Sync(); err == nil {
		t.Fatalf("the sync did not fail")
	}
	if err := os.Truncate(lost, 0); err != nil {
		t.Fatal(err)
	}
	fails.Store(false)
	if err := s.journal.syncNow(); err != nil {
		t.Fatalf("beginning again: %v", err)
	}
	if _, err := os.Stat(lost); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the segment that failed is still there: %v", err)
	}
	take(t, s, call("convert", today))
	crashed := t.TempDir()
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatalf("copying: %v", err)
	}
	again := openHere(t, crashed, Options{})
	wantUsed(t, again, call("convert", today), 4)
	wantUsed(t, again, call("rates", today-1), 3)
}

// TestArchiveFailsWhileRestoring: the log refuses calls until the archive
// has what the log has lost.
func TestArchiveFailsWhileRestoring(t *testing.T) {
	t.Parallel()
	s, fails := openFailing(t, t.TempDir())
	take(t, s, call("convert", today))
	fails.Store(true)
	_ = s.journal.log.Sync()
	fails.Store(false)
	works := s.archive.sync
	syncWith(s, func() error { return errors.New("pages lost, too") })
	for range 2 {
		if err := s.journal.syncNow(); err == nil {
			t.Errorf("the log began again without the archive")
		}
		if _, admitted, _ := s.ledger.Take(call("convert", today), 100); admitted {
			t.Errorf("a call is admitted")
		}
	}
	syncWith(s, works)
	if err := s.journal.syncNow(); err != nil {
		t.Errorf("beginning again: %v", err)
	}
	wantUsed(t, s, call("convert", today), 1)
}
