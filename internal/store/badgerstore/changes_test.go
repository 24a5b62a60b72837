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

// TestLostLog: the log of the counts has all changes that a log of Badger can lose
// in a loss of power. A store whose database has lost more is refused.
func TestLostLog(t *testing.T) {
	t.Parallel()
	crashed, older := revokedStore(t)
	log := func(dir string) string { return find(t, dir, "*.mem") }
	for name, test := range map[string]struct {
		damage  func(dir string) error
		refused bool
	}{
		"nothing":                                 {func(string) error { return nil }, false},
		"it is an older one":                      {func(dir string) error { return copyFile(log(older), log(dir)) }, false},
		"its end is missing":                      {func(dir string) error { return os.Truncate(log(dir), 500) }, false},
		"the log of the memtable is missing":      {func(dir string) error { return os.Remove(log(dir)) }, true},
		"it is empty":                             {func(dir string) error { return os.Truncate(log(dir), 0) }, true},
		"it has a header and nothing else":        {func(dir string) error { return os.Truncate(log(dir), 20) }, true},
		"what is needed at its beginning is lost": {func(dir string) error { return flipAt(log(dir), 40) }, true},
	} {
		dir := t.TempDir()
		copyStore(t, crashed, dir)
		if err := test.damage(dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := badgerstore.OpenTest(dir, badgerstore.Options{})
		switch {
		case err == nil && test.refused:
			t.Errorf("%s: opened, %v", name, s.Close())
		case err == nil:
			wantRevoked(t, s)
		case !test.refused || !strings.Contains(err.Error(), "store is damaged: "):
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// flipAt flips a bit of a file.
func flipAt(path string, at int) error {
	data, err := os.ReadFile(path)
	if err == nil {
		data[at] ^= 1
		err = os.WriteFile(path, data, 0o600)
	}
	return err
}

// TestFlippedLog: each byte of the log before the last mark is verified: the store is
// refused, and never opens without a change. Without Long, it is every 16th byte.
func TestFlippedLog(t *testing.T) {
	t.Parallel()
	live, crashed := t.TempDir(), t.TempDir()
	s := openWith(t, live, badgerstore.Options{}.WithSegments(smallSegments))
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatal(err)
	}
	key := store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key, Name: "ci", CreatedAt: now}
	if err := errors.Join(s.CreateKey(t.Context(), key, token.Hash{1}), s.RevokeKey(t.Context(), "acc_1", "key_1", now)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.Take(t.Context(), store.Call{Account: "acc_1", Endpoint: "convert", Day: today}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.FlushForTest(); err != nil {
		t.Fatal(err)
	}
	copyStore(t, live, crashed)
	removeSpare(t, crashed)
	log := find(t, crashed, "*.log")
	data, err := readFile(log)
	if err != nil {
		t.Fatal(err)
	}
	const mark = 16
	step := 16
	if storetest.Long() {
		step = 1
	}
	for at := 0; at < content(data)-mark; at += step {
		data[at] ^= 1
		if err := os.WriteFile(log, data, 0o600); err != nil {
			t.Fatal(err)
		}
		data[at] ^= 1
		s, err := badgerstore.Open(crashed, badgerstore.Options{})
		if err == nil {
			t.Fatalf("byte %d flipped: opened, %v", at, s.Close())
		}
		if want := filepath.Base(log) + ": "; !strings.Contains(err.Error(), want) {
			t.Errorf("byte %d flipped: got %v, want %q", at, err, want)
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
