package badgerstore

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

func openHere(t *testing.T) (*Store, *journal) {
	t.Helper()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s, s.journal
}

// TestSyncIsAskedFor: what must be on the disk is synced, what need not
// be is not, unless the operator wants it.
func TestSyncIsAskedFor(t *testing.T) {
	t.Parallel()
	s, j := openHere(t)
	syncs, sync := 0, j.sync
	j.sync = func() error { syncs++; return sync() }
	steps := []struct {
		name   string
		always bool
		want   int
		do     func() error
	}{
		{"account", false, 1, func() error {
			_, err := s.PutAccount(t.Context(), store.Account{ID: "acc_1", Plan: "starter"})
			return err
		}},
		{"key", false, 1, func() error {
			return s.CreateKey(t.Context(), store.Key{ID: "key_1", Account: "acc_1"}, [32]byte{1})
		}},
		{"revocation", false, 1, func() error { return s.RevokeKey(t.Context(), "acc_1", "key_1", time.Now()) }},
		{"call", false, 0, func() error { return takeOne(s) }},
		{"call with sync on", true, 1, func() error { return takeOne(s) }},
		{"deletion", false, 2, func() error { return s.DeleteAccount(t.Context(), "acc_1") }},
	}
	for _, step := range steps {
		before := syncs
		j.always = step.always
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := syncs - before; got != step.want {
			t.Errorf("%s: got %d syncs, want %d", step.name, got, step.want)
		}
	}
}

func takeOne(s *Store) error {
	_, _, err := s.ledger.Take(store.Call{Account: "acc_1", Endpoint: "convert", Day: 20000}, 100)
	return err
}

// TestFailedSyncIsFinal: after a sync that failed none is believed, so
// that no change is called durable which the kernel has given up.
func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	s, j := openHere(t)
	if _, err := s.PutAccount(t.Context(), store.Account{ID: "acc_1", Plan: "starter"}); err != nil {
		t.Fatalf("creating the account: %v", err)
	}
	hash := [32]byte{1}
	if err := s.CreateKey(t.Context(), store.Key{ID: "key_1", Account: "acc_1"}, hash); err != nil {
		t.Fatalf("creating the key: %v", err)
	}
	errLost, sync := errors.New("pages lost"), j.sync
	j.sync = func() error { return errLost }
	for range 2 {
		if err := s.RevokeKey(t.Context(), "acc_1", "key_1", time.Now()); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errLost) {
			t.Errorf("revoking: got %v", err)
		}
		j.sync = sync // it works again, or so it says
	}
	if err := takeOne(s); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("taking a call: got %v", err)
	}
}

// TestLargeGroup: a group that exceeds a transaction of Badger is written
// all the same, and what belongs together within one transaction.
func TestLargeGroup(t *testing.T) {
	t.Parallel()
	s, _ := openHere(t)
	const rows = 40000
	changes := make([]ledger.Change, rows)
	for i := range changes {
		changes[i] = ledger.Change{Key: attemptKey([]byte{byte(i), byte(i >> 8), 7}), Value: make([]byte, 50)}
	}
	if err := s.ledger.Use(func() error { return s.ledger.Write(false, changes...) }); err != nil {
		t.Fatalf("writing: %v", err)
	}
	got := 0
	if err := s.LoadAttempts(t.Context(), func(_, _ []byte) error { got++; return nil }); err != nil || got != rows {
		t.Errorf("got %d rows, %v, want %d", got, err, rows)
	}
}

// TestRowTooLarge: a row that would go to the value log, which nobody
// cleans, is refused.
func TestRowTooLarge(t *testing.T) {
	t.Parallel()
	s, _ := openHere(t)
	write := func(size int) error {
		return s.ledger.Use(func() error {
			return s.ledger.Write(false, ledger.Change{Key: []byte("l1"), Value: make([]byte, size)})
		})
	}
	if err := write(maxValue - 1); err != nil {
		t.Errorf("the largest row: %v", err)
	}
	if err := write(maxValue); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a row too large: got %v", err)
	}
}
