package badgerstore_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestCloseIsBounded: Badger retries failing writes forever when it is closed.
// Close returns an error, and completes when the writes succeed.
func TestCloseIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.SetPatience(100 * time.Millisecond)
	account := store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}
	if _, err := storetest.PutAccount(t.Context(), s.Book, account); err != nil {
		t.Fatalf("creating the account: %v", err)
	}

	// No file can be opened, and so no table written. The limit is that of
	// the whole process: this does not run beside other tests.
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	first, second := s.Close(), s.Close()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{first, second} {
		if !errors.Is(err, store.ErrNotClosed) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("closing: got %v, want %v", err, store.ErrNotClosed)
		}
	}
	if _, err := s.Take(t.Context(), sharedCall, nil, nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a call: got %v", err)
	}

	deadline := time.Now().Add(time.Minute)
	err := s.Close()
	for errors.Is(err, store.ErrNotClosed) && time.Now().Before(deadline) {
		err = s.Close()
	}
	if errors.Is(err, store.ErrNotClosed) {
		t.Fatalf("closing once files can be opened: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if got, err := open(t, dir).Account(t.Context(), "acc_1"); err != nil || !reflect.DeepEqual(got, account) {
		t.Errorf("opened again: got %+v, %v, want %+v", got, err, account)
	}
}
