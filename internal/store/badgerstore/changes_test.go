package badgerstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// revokedStore returns the directory of a store that was killed, and a copy
// of it from before the last changes: since then an account was downgraded,
// another one disabled, and a key revoked.
func revokedStore(t *testing.T) (crashed, older string) {
	t.Helper()
	live, older, crashed := t.TempDir(), t.TempDir(), t.TempDir()
	s := open(t, live)
	put := func(a store.Account) {
		if _, err := storetest.PutAccount(t.Context(), s.Book, a); err != nil {
			t.Fatalf("filling: %v", err)
		}
	}
	put(store.Account{ID: "acc_1", Plan: "business", CreatedAt: now})
	put(store.Account{ID: "acc_2", Plan: "starter", CreatedAt: now})
	key := store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key, Name: "ci", CreatedAt: now}
	if err := s.CreateKey(t.Context(), key, token.Hash{1}); err != nil {
		t.Fatalf("filling: %v", err)
	}
	copyStore(t, live, older)
	put(store.Account{ID: "acc_1", Plan: "starter"})
	put(store.Account{ID: "acc_2", Plan: "starter", Disabled: true})
	if err := s.RevokeKey(t.Context(), "acc_1", "key_1", now.Add(time.Second)); err != nil {
		t.Fatalf("revoking: %v", err)
	}
	copyStore(t, live, crashed)
	return crashed, older
}

// TestLostChanges: a store whose database has lost changes is refused with
// their number. Badger itself accepts a missing or empty log of a memtable.
func TestLostChanges(t *testing.T) {
	t.Parallel()
	crashed, older := revokedStore(t)
	wal := func(dir string) string { return find(t, dir, "*.mem") }
	tests := map[string]func(dir string) error{
		"nothing":                            func(string) error { return nil },
		"the log of the memtable is missing": func(dir string) error { return os.Remove(wal(dir)) },
		"it is empty":                        func(dir string) error { return os.Truncate(wal(dir), 0) },
		"it has a header and nothing else":   func(dir string) error { return os.Truncate(wal(dir), 20) },
		"it is an older one":                 func(dir string) error { return copyFile(wal(older), wal(dir)) },
		"Badger's files are older": func(dir string) error {
			logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
			if err != nil {
				return err
			}
			copied := t.TempDir()
			for _, log := range logs {
				err = errors.Join(err, copyFile(log, filepath.Join(copied, filepath.Base(log))))
			}
			err = errors.Join(err, os.RemoveAll(dir), os.Mkdir(dir, 0o700))
			copyStore(t, older, dir)
			copyStore(t, copied, dir)
			return err
		},
	}
	for name, damage := range tests {
		dir := filepath.Join(t.TempDir(), "gate")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		copyStore(t, crashed, dir)
		if err := damage(dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := badgerstore.OpenTest(dir, badgerstore.Options{})
		if name == "nothing" && err == nil {
			wantRevoked(t, s)
			continue
		}
		if err == nil {
			err = errors.Join(errors.New("opened"), s.Close())
		}
		if want := "store is damaged: its last "; !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q and how many changes are missing", name, err, want)
		}
	}
}

// wantRevoked checks that a store has the last changes, and closes it.
func wantRevoked(t *testing.T, s badgerstore.TestStore) {
	t.Helper()
	if _, err := s.Grant(t.Context(), token.Hash{1}, now.Add(time.Minute)); !errors.Is(err, store.ErrNoGrant) {
		t.Errorf("the revoked key: %v", err)
	}
	if a, err := s.Account(t.Context(), "acc_2"); err != nil || !a.Disabled {
		t.Errorf("the disabled account: %+v, %v", a, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// TestLostRecentCalls: the loss of rows that the background wrote is detected a
// second later, too.
func TestLostRecentCalls(t *testing.T) {
	t.Parallel()
	live, crashed := t.TempDir(), t.TempDir()
	s := open(t, live)
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatal(err)
	}
	early := t.TempDir()
	copyStore(t, live, early)
	s.Record(store.Record{Account: "acc_1", Endpoint: "convert", At: now, Method: "GET", Path: "/"})
	if _, err := s.Recent(t.Context(), "acc_1", now); err != nil {
		t.Fatal(err)
	}
	if err := s.FlushForTest(); err != nil {
		t.Fatal(err)
	}
	copyStore(t, live, crashed)
	if err := copyFile(find(t, early, "*.mem"), find(t, crashed, "*.mem")); err != nil {
		t.Fatal(err)
	}
	if got := verdict(t, crashed); got != "refused" {
		t.Errorf("without the recent call the store is %s", got)
	}
}
