package badgerstore_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// now is when a test runs: Badger judges by the clock of the machine what
// has expired.
var now = time.Now().UTC().Truncate(time.Millisecond)

var today = calendar.Day(now.Unix() / 86400)

func open(t *testing.T, dir string) *badgerstore.Store {
	t.Helper()
	s, err := badgerstore.Open(dir, badgerstore.Options{})
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

// TestReopen is the life of a store in brief: what was decided before it
// was closed is decided the same way after it was opened again.
func TestReopen(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	hash := token.Hash{1, 2, 3}
	call := store.Call{Account: "acc_1", Endpoint: "convert", Day: today}

	s := open(t, dir)
	if _, err := storetest.PutAccount(ctx, s, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatalf("creating the account: %v", err)
	}
	key := store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key, Name: "ci", Abilities: []string{"convert"}, CreatedAt: now}
	if err := s.CreateKey(ctx, key, hash); err != nil {
		t.Fatalf("creating the key: %v", err)
	}
	for want := int64(1); want <= 3; want++ {
		if used, admitted, err := badgerstore.TakeDaily(s, call, 3); used != want || !admitted || err != nil {
			t.Fatalf("taking call %d: got %d, %v, %v", want, used, admitted, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
	if _, err := s.Grant(ctx, hash, now); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a grant after closing: got %v, want %v", err, store.ErrClosed)
	}

	s = open(t, dir)
	want := store.Grant{Account: "acc_1", Plan: "starter", Key: "key_1", KeyName: "ci", Abilities: "convert"}
	got, err := s.Grant(ctx, hash, now)
	if got.Handle = 0; !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("grant: got %+v, %v, want %+v", got, err, want)
	}
	if used, admitted, err := badgerstore.TakeDaily(s, call, 3); used != 3 || admitted || err != nil {
		t.Errorf("taking a call beyond the limit: got %d, %v, %v, want 3, false", used, admitted, err)
	}
	counts, err := s.Counts(ctx, "acc_1", "", today-1, today)
	if err != nil || len(counts) != 1 || counts[0] != (store.Count{Day: today, Endpoint: "convert", Used: 3}) {
		t.Errorf("counts: got %+v, %v", counts, err)
	}
}
