package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestLostPagesDoNotMatter: without Options.Sync a disk that loses pages is
// noticed by the sync in the background. Then the store refuses calls until what
// was in the segment is in the archive: its file may have lost it.
func TestLostPagesDoNotMatter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, fails := openFaulty(t, dir)
	for range 3 {
		take(t, s, call("convert", today))
	}
	lost := filepath.Join(dir, "0000000001.log")
	fails.Store(true)
	// The background may have synced the calls, so there must be something to sync.
	_ = s.journal.log.Append(nil)
	if err := s.journal.syncNow(); err == nil {
		t.Fatalf("the sync did not fail")
	}
	if admitted, err := s.ledger.Take(call("convert", today), nil, nil); admitted || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a call is admitted after it: %v", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the check says %v", err)
	}
	if err := os.Truncate(lost, 0); err != nil {
		t.Fatal(err)
	}
	fails.Store(false)
	if err := s.journal.syncNow(); err != nil {
		t.Fatalf("beginning again: %v", err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("then the check says %v", err)
	}
	if _, err := os.Stat(lost); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the segment that failed is still there: %v", err)
	}
	take(t, s, call("convert", today))
	wantAfterCrash(t, dir, 4)
}

// TestArchiveFailsWhileRestoring: the log refuses calls until the archive
// has what the log has lost.
func TestArchiveFailsWhileRestoring(t *testing.T) {
	t.Parallel()
	s, fails := openFaulty(t, t.TempDir())
	take(t, s, call("convert", today))
	failLog(t, s, fails)
	works := s.archive.sync
	syncWith(s, func() error { return errors.New("pages lost, too") })
	for range 2 {
		if err := s.journal.syncNow(); err == nil {
			t.Errorf("the log began again without the archive")
		}
		if admitted, _ := s.ledger.Take(call("convert", today), Daily("convert", 100), make([]store.Room, 1)); admitted {
			t.Errorf("a call is admitted")
		}
	}
	syncWith(s, works)
	if err := s.journal.syncNow(); err != nil {
		t.Errorf("beginning again: %v", err)
	}
	wantUsed(t, s, call("convert", today), 1)
}

// TestChangeOnALogThatFails: the caller is told so and repeats it when the log
// works again. A crash before that does not make a change that was refused.
func TestChangeOnALogThatFails(t *testing.T) {
	t.Parallel()
	account := store.Account{ID: "acc_1", Plan: "starter", CreatedAt: time.Now()}
	hash := token.Hash{1}
	for name, change := range map[string]func(s TestStore) error{
		"ending logins": func(s TestStore) error { return s.EndLogins(t.Context(), "acc_1", time.Now()) },
		"revoking":      func(s TestStore) error { return s.RevokeKey(t.Context(), "acc_1", "key_1", time.Now()) },
		"deleting": func(s TestStore) error {
			if err := s.DeleteAccount(t.Context(), "acc_1"); !errors.Is(err, store.ErrNotFound) {
				return err
			}
			return nil
		},
		"disabling": func(s TestStore) error {
			_, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter", Disabled: true})
			return err
		},
	} {
		dir := t.TempDir()
		s, fails := openFaulty(t, dir)
		if _, err := storetest.PutAccount(t.Context(), s.Book, account); err != nil {
			t.Fatal(err)
		}
		key := store.Key{ID: "key_1", Account: "acc_1", Kind: token.Login, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
		if err := s.CreateKey(t.Context(), key, hash); err != nil {
			t.Fatal(err)
		}
		fails.Store(true)
		if err := change(s); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s on a log that fails: got %v", name, err)
		}
		fails.Store(false)
		if err := s.journal.syncNow(); s.journal.log.Failed() != nil {
			t.Fatalf("beginning again: %v", err)
		}
		crashed := t.TempDir()
		if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if _, err := openHere(t, crashed, Options{}).Grant(t.Context(), hash, time.Now()); err != nil {
			t.Errorf("%s was refused, and after a crash the token is not valid: %v", name, err)
		}
		if err := change(s); err != nil {
			t.Errorf("%s again: %v", name, err)
		}
		if name == "deleting" {
			if _, err := storetest.PutAccount(t.Context(), s.Book, account); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Grant(t.Context(), hash, time.Now()); !errors.Is(err, store.ErrNoGrant) {
			t.Errorf("%s: the token still opens something: %v", name, err)
		}
	}
}

// TestCloseOfALogThatFails leaves the store open until the counts are on
// the disk.
func TestCloseOfALogThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, fails := openFaulty(t, dir)
	take(t, s, call("convert", today))
	fails.Store(true)
	for range 2 {
		if err := s.Close(); !errors.Is(err, store.ErrNotClosed) {
			t.Errorf("closing: got %v, want %v", err, store.ErrNotClosed)
		}
	}
	fails.Store(false)
	if err := s.Close(); err != nil {
		t.Fatalf("closing again: %v", err)
	}
	wantUsed(t, openHere(t, dir, Options{}), call("convert", today), 1)
}

// TestCloseAfterAFailedSync closes the database, and says each time that its
// last changes may be missing.
func TestCloseAfterAFailedSync(t *testing.T) {
	t.Parallel()
	s, err := OpenTest(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	take(t, s, call("convert", today))
	errLost := errors.New("pages lost")
	syncWith(s, func() error { return errLost })
	if err := s.archive.write(kept, change{key: attemptKey([]byte("ip")), value: []byte{1}}); !errors.Is(err, errLost) {
		t.Errorf("writing: %v", err)
	}
	for range 2 {
		if err := s.Close(); !errors.Is(err, errLost) || errors.Is(err, store.ErrNotClosed) {
			t.Errorf("closing: got %v", err)
		}
	}
}
